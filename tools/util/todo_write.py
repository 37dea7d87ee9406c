"""todo_write."""

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BaseModel

from ...safety.errors import Code, ToolError
from ...safety.guard import Guard, GuardContext
from ..base import Access, tool
from ..results import Record
from ..services import Todos
from ..session import MARKS

MAX_ITEMS = 200
MAX_CHARACTERS = 1000


class Todo(BaseModel):
    """One task."""

    content: str
    status: Literal["pending", "in_progress", "completed"]


EACH = "each is {content, status}"


def checked(value: Any, judging: GuardContext) -> tuple[tuple[str, str], ...]:
    """Return the tasks as (content, status), or refuse what is no list of tasks."""
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise ToolError(Code.BAD_TODOS, f"todos: expected a list of at most {MAX_ITEMS} tasks", EACH)
    return tuple(_task(number, item) for number, item in enumerate(value, 1))


def _task(number: int, item: Any) -> tuple[str, str]:
    content = item.get("content") if isinstance(item, dict) else None
    if not isinstance(content, str) or not content.strip() or len(content) > MAX_CHARACTERS:
        raise ToolError(Code.BAD_TODOS, f"todo {number}: expected content of 1 to {MAX_CHARACTERS} characters", EACH)
    status = item.get("status")
    if not isinstance(status, str) or status not in MARKS:
        raise ToolError(Code.BAD_STATUS, f"todo {number}: expected a status of {', '.join(MARKS)}")
    return content, status


class TodoRecord(Record):
    """The list as it stands, and how many tasks have each status."""

    todos: list[Todo]
    counts: dict[str, int]

    def rendered(self) -> str:
        """Return a line for each task."""
        return "\n".join(f"{MARKS[todo.status]} {todo.content}" for todo in self.todos) or "(no tasks)"


@tool(Access.STATE, idempotent_hint=True)
def todo_write(
    owned: Todos,
    todos: Annotated[tuple[tuple[str, str], ...], Guard(checked, accepts=list[Todo], raw=True)],
) -> TodoRecord:
    """Replace this session's whole task list."""
    owned.items = todos
    counts = Counter(status for _, status in todos)
    return TodoRecord(
        todos=[Todo.model_validate({"content": content, "status": status}) for content, status in todos],
        counts={status: counts[status] for status in MARKS},
    )
