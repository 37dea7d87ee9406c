"""process_list."""

from pydantic import BaseModel

from toolbox_mcp.safety.text import visible_name
from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.results import Record
from toolbox_mcp.tools.services import ProcessRows


class ProcessRow(BaseModel):
    """One background process."""

    id: str
    name: str | None
    status: str
    pid: int
    age_seconds: float
    exit_code: int | None
    command: str


class ProcessList(Record):
    """The background processes of this session, oldest first."""

    processes: list[ProcessRow]

    def rendered(self) -> str:
        """Return one line for each."""
        rows = [
            f"{row.id}  {row.status}  pid {row.pid}  {row.age_seconds:.0f}s  {visible_name(row.command)}"
            for row in self.processes
        ]
        return "\n".join(rows) or "no processes"


@tool(Access.READ)
def process_list(processes: ProcessRows) -> ProcessList:
    """List background processes, running and ended."""
    rows = [
        ProcessRow(
            id=row.id,
            name=row.name,
            status=row.status,
            pid=row.pid,
            age_seconds=row.age_seconds,
            exit_code=row.exit_code,
            command=row.command,
        )
        for row in processes.list()
    ]
    return ProcessList(processes=rows)
