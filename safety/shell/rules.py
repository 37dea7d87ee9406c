"""What a shell line may run: every command in it is named, and its name is judged.

A seat belt, not a boundary: any interpreter, and any program that starts programs, can do what is refused here.
The boundary is the sandbox (`shell_sandbox`).
"""

from collections.abc import Collection, Mapping

from ..errors import Code, ToolError
from .judge import Judge
from .loopback import CLIENTS
from .script import RefusedError, excerpt, names

HARD = names(
    "sudo su rm mkfs mkfs.* shutdown reboot halt poweroff vim vi nano emacs less more top htop curl wget nc netcat "
    "ncat socat ssh scp sftp ftp tftp telnet invoke-webrequest iwr invoke-restmethod irm diskpart format.com del "
    "erase rmdir rd remove-item ri"
)
"""Refused in every shell, whatever the configuration says. `format` as well, in cmd.

curl and wget may ask this machine itself, where the grammar is that of sh.
"""

BY_NAME = names("pkill killall killall5 skill taskkill tskill stop-process spps")
"""Refused together with the hard list: what ends processes by their name reaches this server, its guardian, the client
and other programs of the operator, while what a line itself started ends with it."""

INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(
        ("kill", *BY_NAME), "process_kill ends what process_start started; %1, $! and $$ name what the line started"
    ),
    **dict.fromkeys(
        ("rm", "rmdir", "del", "erase", "rd", "remove-item", "ri"),
        "delete_file deletes, and so does rm of literal project paths at the start of a line",
    ),
    **dict.fromkeys(("vim", "vi", "nano", "emacs"), "edit_file and write_file change files"),
    **dict.fromkeys(
        ("curl", "wget"),
        "web_fetch and http_request ask other hosts; this machine is asked by plain options and a literal address",
    ),
    **dict.fromkeys(("less", "more"), "read_file shows files, cat works in a pipeline"),
}
MAX_BYTES = 65536


def check(
    command: str,
    *,
    shell: str,
    extra: Collection[str] = (),
    heuristics: bool = True,
    hard: Collection[str] = HARD,
    max_bytes: int = MAX_BYTES,
    own: Collection[int] = (),
    confined: bool = False,
) -> None:
    """Refuse a command that shell must not run; ToolError(command_denied) names the command and the reason.

    shell: bash, zsh, sh, dash, ksh, fish, pwsh, powershell or cmd. extra: more refused names, any case.
    heuristics: also refuse fork bombs and a trailing `&`. own: processes that no line may signal. confined: it runs in a
    sandbox, which is its boundary; only its size is looked at. Takes time in proportion to the command, about 3 us a
    character.
    """
    try:
        size = len(command.encode())
        if size > max_bytes:
            raise RefusedError(f"it has {size} bytes, more than {max_bytes}")
        if not command.strip():
            raise RefusedError("it is empty")
        if confined:
            return
        more = BY_NAME | ({"format"} if shell == "cmd" else set()) if hard is HARD else frozenset()
        own_names = {name.lower() for name in extra}
        local = frozenset(CLIENTS) - own_names if hard is HARD else frozenset()
        judge = Judge(frozenset(hard) | more | own_names, heuristics, frozenset(own), local)
        judge.text(command, shell)
        judge.finish()
    except (RefusedError, UnicodeEncodeError, RecursionError) as refusal:
        reason = str(refusal) if isinstance(refusal, RefusedError) else "it cannot be read"
        hint = INSTEAD.get(reason.partition(" ")[0])
        if hint is None and reason.endswith("is not allowed in shell commands"):
            hint = "do without it, or ask the person to run it"
        raise ToolError(Code.COMMAND_DENIED, f"{excerpt(command)} is refused: {reason}", hint) from None
