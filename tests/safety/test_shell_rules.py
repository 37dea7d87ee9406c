import pytest

from tests.tables import each_row
from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.shell.rules import HARD, check
from toolbox_mcp.safety.variables import CODE_VARIABLES, HARMLESS, check_variables, runs_code


def refusal(command, shell="bash", **options):
    try:
        check(command, shell=shell, **options)
    except ToolError as refused:
        assert refused.code == "command_denied"
        return refused.error
    return None


def passed(commands, shells=("bash",), **options):
    """Return the rows that are accepted."""
    rows = [(shell, command) for shell in shells for command in commands]
    return [(shell, command) for shell, command in rows if refusal(command, shell, **options) is None]


def not_passed(commands, shells=("bash",), **options):
    """Return the rows that are refused, each with the reason."""
    rows = [(shell, command) for shell in shells for command in commands]
    refusals = [(shell, command, refusal(command, shell, **options)) for shell, command in rows]
    return [row for row in refusals if row[2] is not None]


SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
EVERYDAY = [
    "ls -la", "cd src && make -j4 2>&1 | tail -n 20", "git commit -m 'remove `rm` from the docs'",
    "git log --oneline | head -5; git status", "FOO=1 BAR='a b' npm test", "echo \"$HOME/${USER:-nobody}\"",
    "for f in *.py; do echo \"$f\"; done", "if [ -f a ]; then cat a; else echo none; fi", "grep -rn 'rm -rf' . || true",
    "while read -r line; do echo \"$line\"; done < file", "find . -name '*.py' -exec grep -l foo {} +",
    "find . -type f -print0 | xargs -0 grep -n TODO", "find \"$dir\" -name '*.o' -delete", "awk '{print $1}' f | sort | uniq -c",
    "sed -e 's/a/b/' -i file", "python3 - <<'EOF'\nimport os\nprint('rm')\nEOF", "cat > x.sh <<EOF\n#!/bin/sh\necho $HOME\nEOF",
    "echo $((1 + 2)) $(date +%s)", "test -d x || mkdir x", "command -v curl", "type rm; which wget", "env LANG=C sort f",
    "nohup make > log 2>&1", "timeout 5 ls", "time ls", "bash -c 'echo hi'", "bash -euo pipefail -c 'ls | wc -l'", "sh ./x.sh",
    "case $1 in start|go) echo a;; *) echo b;; esac", "f() { echo x; }; f", "x=$(ls | wc -l); echo \"$x\"", "echo 'it is'\\''nt'",
    "cargo test -- --nocapture", "echo a # rm -rf /", "set -euo pipefail; ls", "trap 'echo bye' EXIT; ls", "! grep -q x f",
    "{ echo a; echo b; } > f", "(cd x && ls)", "echo {a,b}", "ls *.txt ?x [ab]", "export PATH=\"$PATH:/x\"", "sleep 1 & wait",
    "diff <(ls a) <(ls b)", "[[ $x == y* && -n $z ]] && ls", "arr=(a b c); echo \"${arr[@]}\" ${#arr[@]}", "echo 'rm'",
    "eval 'echo hi'", ". ./env.sh", "source venv/bin/activate && pytest", "printf '%s\\n' a b", "echo \"cost: \\$5\"", "ls\\\n -l",
    "git diff HEAD~1 -- a.py", "rg 'foo$' -g '*.rs'", "jq '.a | .b' f.json", "echo \"a `date` b\"", "for i in $(seq 3); do echo $i; done",
    "x=5; while ((x > 0)); do ((x--)); done", "node -e 'console.log(1)'", "export $(cat .env | xargs)", "exec 3>&1", "read -r a b <<< \"x y\"",
]  # fmt: skip


def test_everyday_commands_pass():
    assert not_passed(EVERYDAY) == []


# What a shell runs as rm, one trick a row. `{}` stands for nothing: each row is run as it is by the fuzz as well.
BYPASSES = [
    # the name
    "rm x", "/bin/rm x", "./rm x", "../../bin/rm x", "RM x", "rm.exe x", "r''m x", 'r""m x', "'rm' x", '"rm" x', "\\rm x", "r\\m x",
    "$'rm' x", "$'\\x72m' x", "$'\\162m' x", "$'\\u0072m' x", "r$'m' x", '$"rm" x', "r\\\nm x", "\\\nrm x", "r$x''m x", "r${x}m x", "r$@m x",
    "${x:-rm} x", "${x-rm} x", "${x:=rm} x", "$x x", "$(echo rm) x", "`echo rm` x", "/bin/r? x", "/bin/[r]m x", "/bin/r* x", "{rm,x}", "r{m,} x",
    "{r,r}m x", "~/../bin/rm x", "$0 x", "$_ x", "!rm x", "=rm x", "rm\tx", " rm x", "\trm x", "rm<x", "rm>x", "rm;", "rm\n", "rm&&ls", "rm|ls",
    # behind something
    "ls; rm x", "ls;rm x", "ls && rm x", "ls || rm x", "ls | rm", "ls |& rm", "ls & rm x", "ls\nrm x", "ls #\nrm x", "true # x\\\nrm x", "(rm x)", "( rm x )",
    "{ rm x; }", "! rm x", "! ! rm x", "time rm x", "time -p rm x", "time -- rm x", "if true; then rm x; fi", "if rm; then ls; fi", "if false; then ls; elif rm; then ls; fi",
    "if false; then ls; else rm x; fi", "while rm; do break; done", "until rm; do break; done", "for i in 1; do rm x; done", "for ((;;)); do rm x; break; done",
    "case a in a) rm x;; esac", "case a in (a) rm x;; esac", "case a in b) ls;; a) rm x; esac", "case $(rm x) in a) ls;; esac", "f() { rm x; }; f", "f() (rm x); f", "function f { rm x; }; f",
    "a=1 rm x", "a=1 b=2 rm x", "a=$(rm x)", "a[0]=1 rm x", "a=(1 2) rm x", "a+=1 rm x", "PATH=/tmp rm x", ">f rm x", "2>f rm x", "2>&1 rm x", "<f rm x", ">f 2>&1 rm x", "<<<x rm", "&>f rm x",
    "{fd}>f rm x", "2\\\n>f rm x", "a\\\n=1 rm x", ">&2 rm x", "<<E rm x\nE", "ls <<E; rm x\nE", "ls <<E\nE\nrm x", "ls <<-E\n\tE\nrm x", "ls <<'E'\n$x\nE\nrm x", "ls <<E\nE\\\nE\nrm x",
    "ls <<EOF\nEO\\\nF\nrm x\nEOF", "ls <<\"E\"\nE\nrm x", "ls <<\\E\nE\nrm x", "cat <<A <<B\nA\nB\nrm x", "coproc rm x", "coproc f { rm x; }", "select i in a; do rm x; done", "{ { rm x; } }", "[[ -n x ]] && rm x", "[[ -n x ]]; rm x",
    "[[ a =~ b ]] && rm x", "((1)) && rm x", "((x)); rm x", "( (rm x) )", "((rm x); ls)", "let x=1; rm x", "a=1;rm x",
    # in a word
    "echo $(rm x)", "echo `rm x`", 'echo "$(rm x)"', 'echo "`rm x`"', "echo $(echo $(rm x))", "echo `echo \\`rm x\\``", 'echo "`echo \\"\\`rm x\\`\\"`"', "echo ${x:-$(rm x)}", "echo ${x:-`rm x`}", 'echo "${x:-$(rm x)}"',
    "echo ${x:+a}${y:=$(rm x)}", "echo ${x/a/$(rm x)}", "echo ${x#$(rm x)}", "echo ${x:$(rm x)}", "echo ${a[$(rm x)]}", "echo $((1 + $(rm x)))", "echo $(( `rm x` ))", "echo $[ $(rm x) ]", "echo $((a[$(rm x)]))", "((a[$(rm x)]))",
    "cat <(rm x)", "echo a >(rm x)", "cat <<E\n$(rm x)\nE", "cat <<E\n`rm x`\nE", "cat <<E\n${x:-$(rm x)}\nE", "cat <<< $(rm x)", 'cat <<< "$(rm x)"', "x=$(rm x)", "x=(a $(rm x))", "x=([0]=$(rm x))", "declare -A m=([a]=$(rm x))",
    "for i in $(rm x); do ls; done", "[[ -f $(rm x) ]]", "[[ a =~ $(rm x) ]]", "[ -f $(rm x) ]", "ls > $(rm x)", "ls > `rm x`", "ls 2> <(rm x)", "echo ${x:-<(rm x)}", "echo \\$(rm x)`rm x`", "echo '$('$(rm x)", "echo \"'$(rm x)'\"", "echo '\\'$(rm x)",
    "case a in $(rm x)) ls;; esac", "echo $(case a in a) rm x;; esac)", "echo $(# )\nrm x)", "echo $( (rm x) )", "echo $((rm x) )", "echo $((echo a); (rm x))", "echo \"${x:-\"$(rm x)\"}\"", "echo ${x:-'}'$(rm x)}", "echo \"${x:-'}$(rm x)'\"",
    # wrapped
    "env rm x", "env -i rm x", "env - rm x", "env A=1 rm x", "env -u A rm x", "env -uA rm x", "env --unset=A rm x", "env -C / rm x", "env -S 'rm x'", "env -S'rm x'", "env --split-string='rm x'", "env -vS 'rm x'", "env $x rm x", "env A=$x ls", "env -- rm x", "env env rm x", "/usr/bin/env rm x",
    "command rm x", "command -p rm x", "command -- rm x", "builtin rm", "builtin command rm x", "exec rm x", "exec -a ls rm x", "exec -cl rm x", "nohup rm x", "nice rm x", "nice -n 5 rm x", "nice -5 rm x", "nice -n5 rm x", "nice --adjustment=5 rm x", "timeout 5 rm x",
    "timeout -k 1 5 rm x", "timeout -s KILL 5 rm x", "timeout --foreground 5 rm x", "timeout $x 5 rm x", "timeout \"$x\" 5 rm x", "setsid rm x", "setsid -w rm x", "stdbuf -oL rm x", "stdbuf -o L rm x", "stdbuf --output=L rm x", "ionice -c 3 rm x", "taskset 1 rm x", "chrt -b 0 rm x", "unshare -r rm x",
    "busybox rm x", "toybox rm x", "flock f rm x", "flock f -c 'rm x'", "watch -n 1 rm x", "watch 'ls; rm x'", "doas rm x", "chroot / rm x", "sudo ls", "su -c ls", "\\time -f %e rm x", "command time -f %e rm x",
    "echo x | xargs rm", "echo x | xargs -n 1 rm", "xargs -I{} rm {}", "xargs -I {} {} x", "xargs -i rm {}", "xargs sh -c 'rm x'", "xargs -I{} sh -c '{}'", "xargs -I{} sh -c 'ls; {}'", "xargs -0 env", "echo rm | xargs env", "xargs -I x env x", "xargs -a f rm", "xargs -P4 -n1 rm", "xargs --replace=Q Q", "xargs --arg-file f rm",
    "xargs bash", "xargs -J % rm", "xargs $x rm", "xargs time rm", "find . -exec rm {} ;", "find . -exec rm {} \\;", "find . -exec rm {} +", "find . -execdir rm {} +", "find . -ok rm {} ;", "find . -okdir rm {} ;", "find . -exec env rm {} +", "find . -exec {} ;", "find . -exec sh -c 'rm x' ;",
    "find . -exec sh -c '{}' ;", "find . -exec ls {} \\; -exec rm {} \\;", "find . $x rm {} +", "find . \"$x\" rm {} +", "find \"$a\" \"$b\" ;", "find . -exec $x {} +", "find . -name x -exec rm {} +", "bash -c 'rm x'", 'bash -c "rm x"', "bash -c rm", "bash -ec 'rm x'", "bash -c -e 'rm x'", "bash -o errexit -c 'rm x'", "bash -O extglob -c ls",
    "bash +o errexit -c 'rm x'", "bash --norc -c 'rm x'", "bash --rcfile f -c 'rm x'", "bash -c $'rm x'", "bash -c \"$x\"", "bash -c $x", "sh -c 'sh -c \"rm x\"'", "sh -c 'ls;rm x'", "dash -c 'rm x'", "zsh -c 'rm x'", "ksh -c 'rm x'", "/bin/sh -c 'rm x'", "bash -c '$0 x' rm", "bash -c '\"$@\"' _ rm x", "echo rm x | sh", "echo rm x | bash -s", "sh < f",
    "bash <<< 'rm x'", "bash <<E\nrm x\nE", "bash /dev/stdin <<< 'rm x'", "bash <(echo rm x)", "bash -", "bash --", "fish -c 'rm x'", "csh -c 'rm x'", "pwsh -c 'rm x'", "cmd /c del x", "sh -x -c 'rm x'", "bash -i",
    # evaluated
    "eval rm x", "eval 'rm x'", "eval 'r''m x'", "eval ls ';' rm x", "eval \"$x\"", "eval $x", "eval -- rm x", "eval 'eval rm x'", "source <(echo rm x)", ". <(echo rm x)", "source $x", "source /dev/stdin <<< 'rm x'", ". /dev/fd/0", ". /proc/self/fd/0", "trap 'rm x' EXIT", "trap rm EXIT", "trap -- 'rm x' 0", "trap \"$x\" EXIT",
    "alias ls='rm x'; ls", "alias x=rm\nx y", "shopt -s expand_aliases", "BASH_ALIASES[ls]=rm", "BASH_ALIASES=([ls]=rm)", "hash -p /bin/rm ls; ls x", "BASH_CMDS[ls]=/bin/rm; ls", "complete -C rm x", "compgen -C 'rm x'", "compgen -W '$(rm x)'", "bind -x '\"a\":rm x'", "mapfile -C 'rm x' -c 1 a < f", "readarray -C rm a", "enable -f x.so y",
    "fc -s ls=rm", "PS4='$(rm x)'; set -x; ls", "PS4='$(rm x)' bash -xc ls", "export PS4='$(rm x)'", "declare PS4='$(rm x)'", "read PS4 <<< '$(rm x)'", "printf -v PS4 '$(rm x)'", "for PS4 in '$(rm x)'; do set -x; ls; done", ": ${PS4:='$(rm x)'}", "env PS4='$(rm x)' bash -xc ls", "BASH_ENV=f bash -c ls", "PROMPT_COMMAND='rm x' bash -ic ls", "SHELLOPTS=xtrace",
    "set -o history -o histexpand", "set -H", "set $x", "shopt -s extglob", "shopt -s $x", "x='$(rm x)'; echo ${x@P}", "x='a[$(rm x)]'; echo $((x))", "x='a[$(rm x)]'; ((x))", "x='a[$(rm x)]'; let x", "x='a[$(rm x)]'; [[ $x -eq 1 ]]", "x='a[$(rm x)]'; [[ -v $x ]]", "x='a[$(rm x)]'; echo ${b[x]}", "x='a[$(rm x)]'; echo ${b:x}", "x='a[$(rm x)]'; echo ${!x}", "x='a[$(rm x)]'; declare -i y=x", "x='a[`rm x`]'; echo $((x))",
    "read 'a[$(rm x)]' <<< 1", "printf -v 'a[$(rm x)]' 1", "unset 'a[$(rm x)]'", "test -v 'a[$(rm x)]'", "[ -v 'a[$(rm x)]' ]", "declare 'a[$(rm x)]=1'", "export 'a[$(rm x)]=1'", "let 'a[$(rm x)]=1'", "declare -n r='a[$(rm x)]'; echo $r", "getopts a 'a[$(rm x)]'", "x=$(echo 'a[$(rm x)]'); echo $((x))", "x=$(printf 'a[\\x24(rm x)]'); echo $((x))", "read x <<< 'a[$(rm x)]'; echo $((x))", "read x <<'E'\na[$(rm x)]\nE\necho $((x))",
    "for x in 'a[$(rm x)]'; do echo $((x)); done", "x=('a[$(rm x)]'); echo $((x))", "x='a[$(rm x)]' bash -c 'echo $((x))'",
    # found by the fuzz
    "bash rm x", "bash - rm x", ". rm x", "source ../bin/rm x", "echo >&'$(rm x)'", "echo x 2>&1='$(rm x)'", "echo >&$x", "x='a[`rm x`]'; echo $(\\\n(x))", "(\\\n(rm x))", "printf -v$(true)'a[$(rm x)]' 1", "bash -rcfile e -c 'rm x'", "bash -init-file e",
    # what no shell agrees on
    "rm\r", "ls\r\nrm x", "rm\0x", "ls \0rm", "r\x7fm", "ls \x1b[31m", "'", '"', "`", "$(", "${", "$((", "((", "(", ")", "{", "}", "if", "then", "fi", "do", "done", "case", "esac", ";;", "&&", "||", "|", ";", "&", "ls;;", "ls &&", "ls ||", "ls |", "&& ls", "| ls", "; ls", "ls <<E", "ls <", "ls >", "a(", "a)", "a()", "\\", "ls \\",
    "${x", "${x:-", "\"${x}", "<(ls", "function", "function f", "rm\u00a0x", "\u2003rm", "ls\u200b", "rm\u2028x", "", " ", "\n", "@(rm) x", "?(x)rm x", "*(rm)", "echo $[1]", "echo ${ rm;}", "echo ${| rm;}", "if true; { rm x; }", "for i in a; rm x", "echo *(e:'rm x':)",
]  # fmt: skip
ONE_SHELL = [
    ("sh", "((rm x))"), ("dash", "((rm x))"), ("dash", "echo $'\\'; rm x #'"), ("dash", "ls &>f rm x"), ("dash", "[[ a && rm x ]]"), ("sh", "echo $[; rm x ]"),
    ("zsh", "repeat 3 rm"), ("zsh", "noglob rm x"), ("zsh", "- rm x"), ("zsh", "() { rm x; }"), ("zsh", "x=rm; $=x"), ("zsh", "x=rm; echo ${(e)x}"), ("zsh", ">! f rm x"),
    ("zsh", "setopt rcquotes\necho 'a''; rm x '"), ("zsh", "aliases[ls]=rm; ls"), ("zsh", "functions[f]='rm x'; f"), ("zsh", "NULLCMD=rm; <f"), ("zsh", "print -z rm"), ("ksh", "r ls=rm"),
]  # fmt: skip


LOOPBACK = [
    "curl localhost:8080", "curl -s http://localhost:8000/health", "curl -sS -X POST -H 'A: b' -d '{\"a\": 1}' 'http://127.0.0.1:3000/api?x=1'",
    "curl -so /dev/null -w '%{http_code}' 'http://[::1]:80/'", "curl -sXPOST -d \"$body\" localhost/x | jq .", "curl --fail --max-time 5 http://localhost/",
    "code=$(curl -s --output=/dev/null --retry 3 http://127.1.2.3/) && echo $code", "wget -qO- http://localhost:8000/", "wget -q --spider http://localhost", "sleep 1; curl -f localhost:80/a%20b",
]  # fmt: skip
BEYOND = [
    "curl http://example.org", "curl localhost http://example.org", "curl http://localhost@example.org", "curl http://localhost:80@example.org/", "curl http://user@localhost", "curl http://localhost.example.org",
    "curl http://127.0.0.1.example.org", "curl http://127.0.0.1:80.example.org", "curl 'http://localhost\\@example.org'", "curl 'http://{localhost,example.org}/'", "curl 'http://localhost#@example.org'", "curl 'http://localhost:80/[1-9]'",
    "curl ftp://localhost", "curl file:///etc/passwd", "curl gopher://127.0.0.1", "curl 127.0.0.1 -x example.org", "curl -xexample.org localhost", "curl --proxy example.org localhost", "curl -sx example.org localhost",
    "curl --connect-to ::example.org: localhost", "curl --resolve localhost:80:1.2.3.4 localhost", "curl --unix-socket /run/docker.sock http://localhost/", "curl -K f localhost", "curl --next localhost", "curl --url example.org localhost",
    "curl $x", "curl http://localhost:$port", "curl \"http://$host/\"", "curl -d $x localhost", "curl -H", "curl", "curl -", "curl -- localhost example.org", "curl $x localhost", "curl localhos?", "curl ~", "curl -sdx localhost --ur=example.org",
    "curl -X", "curl --silent=x localhost", "curl http://localhost\u00a0x", "wget -i f localhost", "wget -e http_proxy=x localhost", "wget -r localhost", "wget --input-file=f localhost", "wget -qi f localhost", "wget",
    "xargs curl localhost", "echo example.org | xargs curl localhost", "find . -exec curl localhost {} +", "env http_proxy=x curl localhost", "sh -c 'curl localhost \"$@\"' _ example.org", "f() { curl localhost $1; }; f example.org",
    "curl localhost | sh", "CURL localhost example.org", "/usr/bin/curl example.org", "nc localhost 80", "curl localhost; curl example.org",
]  # fmt: skip


def test_this_machine_may_be_asked_and_no_other():
    assert not_passed(LOOPBACK, SHELLS) == []
    assert passed(BEYOND, SHELLS) == []


def test_who_refuses_curl_refuses_it_for_this_machine_too():
    assert refusal("curl localhost", extra=("CURL",)) is not None
    assert refusal("wget localhost", extra=("CURL",)) is None
    assert passed(["curl localhost"], ("fish", "pwsh", "cmd")) == []


def test_every_way_to_a_refused_command_is_refused():
    assert passed(BYPASSES, SHELLS) == []


def test_what_only_one_shell_reads_as_a_command_is_refused_there():
    assert [row for row in ONE_SHELL if refusal(row[1], row[0]) is None] == []


@each_row(
    ("command", "sentence"),
    [
        ("ls; rm -rf x", "`ls; rm -rf x` is refused: rm is not allowed in shell commands"),
        ("/sbin/MKFS.ext4 x", "`/sbin/MKFS.ext4 x` is refused: mkfs.ext4 is not allowed in shell commands"),
        ("$x y", "`$x y` is refused: the name of a command has to be literal, not `$x`"),
        ("eval $x", "`eval $x` is refused: eval has to be followed by literal words, not `$x`"),
        ("echo 'a", "`echo 'a` is refused: unclosed quote near `echo 'a`"),
        ("ls &", "`ls &` is refused: a trailing & leaves a process behind; process_start is for what runs on"),
        (":(){ :|:& };:", "`:(){ :|:& };:` is refused: the function : starts itself again and again"),
        ("  ", "`` is refused: it is empty"),
    ],
)
def test_a_refusal_names_the_command_and_the_reason(command, sentence):
    assert refusal(command) == sentence


def test_every_name_of_the_hard_list_is_refused_in_every_shell():
    names = sorted(HARD - {"mkfs.*"})
    lines = [*(f"{name} x" for name in names), *(f"{name.upper()}.EXE" for name in names)]
    assert len(names) > 20
    assert passed(lines, (*SHELLS, "fish", "pwsh", "powershell", "cmd")) == []


def test_a_refusal_says_which_tool_does_it():
    with pytest.raises(ToolError) as refused:
        check("rm x", shell="bash")
    assert refused.value.hint == "delete_file deletes, and so does rm of literal project paths at the start of a line"


# Not among the rows above: the fuzz runs those.
ENDS_TOO_MUCH = [
    "kill 1", "kill -9 1", "kill -9 -1", "kill -KILL -1", "kill -s KILL -- -1", "kill -n 9 -1", "kill -1", "kill 0", "kill -9 0", "kill -TERM -- 0", "kill +1", "kill '01'",
    "kill 4711", "kill -9 4711", "kill -9 -4711", "kill 4712", "kill -9 %1 4711", "kill $PPID", "kill -9 \"$PPID\"", "kill -9 -${PPID}", "kill {0,1}", "kill -9 {1..9}",
    "/bin/kill -9 -1", "env kill -9 -1", "command kill 1", "builtin kill 1", "timeout 5 kill 1", "ls; kill 1", "echo $(kill 1)", "sh -c 'kill 1'", "trap 'kill 0' EXIT", "xargs kill -9 -1", "\\kill 1",
    "pkill python", "pkill -f server", "killall node", "killall5", "skill -KILL x", "ls | xargs pkill",
]  # fmt: skip


def test_no_line_ends_all_processes_or_this_server():
    assert passed(ENDS_TOO_MUCH, SHELLS, own=(4711, 4712)) == []


ENDS_ITS_OWN = [
    "kill %1", "kill -9 %1", "kill $!", "kill -TERM \"$pid\"", "kill $$", "kill -9 $$", "kill -- -$pid", "kill -0 4713", "kill -1 4713", "kill -9 4713 -4714", "kill -l", "kill -l 1", "kill -s TERM 4713",
    "sleep 9 & kill $!; wait", "kill $(cat server.pid)", "kill `cat server.pid`", "kill ${pids[@]}", "kill ${pid:-$x}", "xargs kill", "xargs -I{} kill {}", "lsof -ti:3000 | xargs kill -9", "echo kill 1", "pgrep node",
]  # fmt: skip


def test_a_line_ends_what_it_started_and_what_it_names():
    assert not_passed(ENDS_ITS_OWN, own=(4711, 4712)) == []


def test_where_words_are_not_looked_through_no_process_is_ended():
    rows = [
        ("fish", "kill -9 -1"), ("fish", "pkill x"), ("pwsh", "Stop-Process -Name python"), ("pwsh", "kill -Name python"),
        ("pwsh", "spps 1"), ("pwsh", "taskkill /im python.exe"), ("cmd", "taskkill /f /im python.exe"), ("cmd", "tskill 1"),
    ]  # fmt: skip
    assert [row for row in rows if refusal(row[1], row[0]) is None] == []


def test_the_refusal_of_a_signal_names_the_ways_to_end_something():
    with pytest.raises(ToolError) as refused:
        check("kill -9 -1", shell="bash")
    assert refused.value.error == "`kill -9 -1` is refused: kill `-1` would end more than the line started"
    assert refused.value.hint is not None and refused.value.hint.startswith("process_kill ends")


def test_the_operator_adds_names():
    assert refusal("terraform apply", extra=["Terraform"]) == (
        "`terraform apply` is refused: terraform is not allowed in shell commands"
    )
    assert refusal("sh -c 'git push'", extra=["git"]) is not None
    assert refusal("git push") is None


def test_another_list_can_take_the_place_of_the_hard_one():
    assert refusal("curl x", hard=()) is None
    assert refusal("rm x", hard=(), extra=["rm"]) is not None


def test_heuristics_refuse_what_runs_on_and_can_be_turned_off():
    lines = [
        "sleep 9 &", "sleep 9 &\n", "sleep 9 & # x", "(sleep 9 &)", "{ sleep 9 & }", "ls; sleep 9&", "for i in 1; do ls & done",
        ":(){ :|:& };:", "f() { f | f; }; f", "f() { f & f; }; f", "function f { f | cat; }", "f() (f | f); f", "bash -c 'ls &'",
    ]  # fmt: skip
    assert passed(lines) == []
    assert not_passed(lines, heuristics=False) == []


def test_heuristics_leave_the_rest_alone():
    lines = ["sleep 1 & wait", "ls && ls", "f() { g | h; }; f", "ls >& f", "ls &> f", "echo $(ls &)x; ls"]
    assert not_passed(lines) == []


def test_a_command_above_the_limit_is_refused_by_its_bytes():
    assert refusal("echo " + "x" * (65536 - 5)) is None
    assert refusal("echo " + "x" * (65536 - 4)) is not None
    assert refusal("echo " + "é" * 32768) is not None
    assert refusal("echo abc", max_bytes=7) is not None


@pytest.mark.slow
@each_row(
    "piece",
    ["(", "$(", "`", "${x:-", "$((", "$((1+$((", "{ ", "if ", "! ", "time ", "eval ", "env ", "xargs ", "f() ", "[[ ", "<<E ", '"$x"', "a;", "a|", "case a in a) "],
)  # fmt: skip
def test_no_depth_or_length_brings_the_check_down(piece):
    for shell in ("bash", "dash", "fish", "pwsh", "cmd"):
        refusal((piece * 65536)[:65536], shell)


FISH = {
    "pass": ["ls -la", "echo (ls)", "if test -f a; cat a; end", "for i in a b; echo $i; end", "set x (ls); echo $x", "ls | sort; and echo ok", "echo 'rm'", 'echo "$HOME x"'],
    "refuse": ["rm x", "ls; rm x", "echo (rm x)", "and rm x", "if rm; end", "begin; rm x; end", "not rm x", "command rm x", "r\\m x", "r'm' x", "'rm' x", "$x", "A=1 rm x", "eval ls", "ls | rm", "ls\nrm x",
               'echo "$(rm x)"', "echo \"(rm x)", "bash -c ls", "nice -n 5 rm x", "env A=1 rm x", "r$x x", "ls;rm", "source x", "{rm,x}", "/bin/r? x", "ls &rm x", "while rm; end"],
}  # fmt: skip
POWERSHELL = {
    "pass": ["Get-ChildItem -Recurse", "ls | Where-Object { $_ -eq 1 } | Sort-Object", "$x = Get-Date; Write-Output $x", "if ($x) { git status } else { ls }", "echo 'rm'", "cd src; npm test", 'Write-Host "a $x"'],
    "refuse": ["rm x", "Remove-Item x", "REMOVE-ITEM x", "ls; rm x", "ls | rm", "& rm x", "& 'rm' x", ". rm", "$x = rm y", "$x, $y = rm y", "(rm x)", "{ rm x }", "if ($x) { rm x }", "if ($x) { ls } rm x", "r`m x", "r'm' x", "iex 'rm'", "Invoke-Expression x",
               '"$(rm x)"', "[scriptblock]::Create('rm')", "$ExecutionContext.InvokeCommand.InvokeScript('rm')", "'rm' | iex", "Start-Process rm", "ls\nrm x", "foreach ($i in rm) { ls }", "@(rm)", "cmd /c del x", "Microsoft.PowerShell.Management\\Remove-Item x",
               "‘rm’", "ls –x", "$x.Invoke()", "irm http://x", "curl x", "pwsh -c rm", "&rm", "ls && rm x", "return rm"],
}  # fmt: skip
CMD = {
    "pass": ["dir /b", "type f | findstr x", "git status && npm test", "echo rm > f", "cd src & dir"],
    "refuse": ["del x", "DEL x", "@del x", "del/f x", "del,x", "del;x", "dir & del x", "dir && del x", "dir | del", "(del x)", "d^el x", "%x% y", "!x! y", "cmd /c del x", "start del", "call del x", "if 1==1 del x", "for %i in (1) do del x", "format c:", "format.com c:",
               "rd /s x", "rmdir x", "erase x", '"del" x', 'd"el" x', "dir\ndel x", "C:\\Windows\\System32\\curl.exe x", "powershell rm", ",del x", "=del x", "diskpart"],
}  # fmt: skip


OTHER_SHELLS = {"fish": FISH, "pwsh": POWERSHELL, "powershell": POWERSHELL, "cmd": CMD}


def test_plain_commands_of_other_shells_pass():
    assert [row for shell, rows in OTHER_SHELLS.items() for row in not_passed(rows["pass"], [shell])] == []


def test_other_shells_are_refused_what_is_not_understood():
    assert [row for shell, rows in OTHER_SHELLS.items() for row in passed(rows["refuse"], [shell])] == []


@each_row(
    ("env", "sentence"),
    [
        ({"A": "1"}, None),
        ({"A": ""}, None),
        ({f"A{i}": "1" for i in range(256)}, None),
        ({f"A{i}": "1" for i in range(257)}, "env has 257 variables, more than 256"),
        ({"": "1"}, "env has the key ''; keys have 1 to 256 bytes without = or NUL"),
        ({"A=B": "1"}, "env has the key 'A=B'; keys have 1 to 256 bytes without = or NUL"),
        ({"A\0": "1"}, "env has the key 'A\\x00'; keys have 1 to 256 bytes without = or NUL"),
        ({"K" * 256: "1"}, None),
        ({"K" * 257: "1"}, f"env has the key '{'K' * 60}...'; keys have 1 to 256 bytes without = or NUL"),
        ({"A": "x" * 32768}, None),
        ({"A": "x" * 32769}, "env 'A' has a value with a NUL or above 32768 bytes"),
        ({"A": "a\0b"}, "env 'A' has a value with a NUL or above 32768 bytes"),
        ({f"A{i}": "x" * 32000 for i in range(9)}, "env has 288018 bytes, more than 262144"),
    ],
)
def test_variables_of_a_call_are_bounded(env, sentence):
    try:
        check_variables(env)
    except ToolError as refused:
        assert (refused.code, refused.error) == ("command_denied", sentence)
    else:
        assert sentence is None


def test_variables_that_are_code_are_refused_by_name():
    names = [name.replace("*", "ANY") for names in CODE_VARIABLES.values() for name in names.split()]
    names += ["BASH_FUNC_ls%%", "ld_preload", "npm_config_script_shell", "GIT_SSH_COMMAND", "PATH", "Path"]
    passed = []
    for name in names:
        try:
            check_variables({name: "x"})
            passed.append(name)
        except ToolError as refused:
            assert refused.code == "env_denied" and name in refused.error
    assert passed == []


def test_variables_that_only_configure_pass():
    names = [
        "DEBUG",
        "NODE_ENV",
        "RAILS_ENV",
        "PORT",
        "LANG",
        "TZ",
        "CI",
        "PYTHONUNBUFFERED",
        "PYTHONHASHSEED",
        "RUST_LOG",
        "TERM",
        "FORCE_COLOR",
        "DATABASE_URL",
    ]
    check_variables(dict.fromkeys([*names, *HARMLESS], "1"))
    assert not any(map(runs_code, names))


@each_row(
    "env",
    [
        {"x": "a[$(rm victim)]"},
        {"x": "a[`rm victim`]"},
        {"n": "PS4=$(rm victim)"},
        {"x": "${ rm victim; }"},
        {"x": "a[<(rm victim)]"},
        {"POSIXLY_CORRECT": "1"},
        {"posixly_correct": "1"},
        {"BASH_ENV": "f"},
        {"LD_PRELOAD": "f"},
        {"PATH": "bin"},
    ],
)
def test_a_variable_that_a_shell_would_run_is_refused(env):
    with pytest.raises(ToolError) as refused:
        check_variables(env)
    assert refused.value.code == "env_denied"


def test_ordinary_variables_pass():
    check_variables({"A": "a[0] (b) {c} $HOME ${HOME} 100%", "LANG": "C", "URL": "https://h/?a=b&c=d", "EMPTY": ""})
