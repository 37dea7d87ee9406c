"""process_list."""

from ...safety.text import visible_name
from ...sandbox.processes import Listed
from ..base import Access, tool
from ..results import Record
from ..services import ProcessRows


class ProcessList(Record):
    """The background processes of this session, oldest first."""

    processes: list[Listed]

    def rendered(self) -> str:
        """Return one line for each."""
        rows = [
            f"{row.id}{f' ({visible_name(row.name)})' if row.name else ''}  {row.status}  pid {row.pid}  {row.age_seconds:.0f}s  {visible_name(row.command)}"
            for row in self.processes
        ]
        return "\n".join(rows) or "no processes"


@tool(Access.READ)
def process_list(processes: ProcessRows) -> ProcessList:
    """List background processes, running and ended."""
    return ProcessList(processes=processes.list())
