"""Ways around the list that were thought of later than those in test_shell_rules, and those that nothing is promised about."""

from tests.safety.test_shell_rules import SHELLS, not_passed, passed, refusal
from tests.tables import each_row

# A shell runs rm, or another refused program, in each of these lines, or might.
BYPASSES = [
    # found by the fuzz
    "a=(1 2)coproc  rm x", "a=(1)ls rm x", "a=(1)'' rm x", "a=(1)$x rm x", "b=1 a=(1)b=2 rm x", "a+=()ls rm x",
    "rm${IFS}x", "rm$IFS$9x", "ls;rm${IFS}-rf${IFS}x", "{rm,-rf,x}", "ls\rrm x", "r\\\nm${IFS}x", "ls&&$(echo rm)${IFS}x", "ls --version; /usr/bin/env rm x", "cat f | tee /dev/null | xargs -n1 -P4 rm",
    "declare -a 'x=($(rm x))'", 'declare -a "x=(\\$(rm x))"', "local -a 'x=(`rm x`)'", "readonly -a 'x=(<(rm x))'", "declare 'x=($(rm x))'", 'y=\'$(rm x)\'; declare -a "x=($y)"',
    "typeset -A 'x=([a]=$(rm x))'", "mapfile -tC 'rm #' a <<< x", "readarray -tc1 -C 'rm #' a <<< x", "mapfile -tC'rm #' a <<< x", 'jobs -x rm x', 'builtin jobs -x rm x', 'jobs -lx rm x',
    'find . -name -exec -o -exec rm {} \\;', 'find . -path -exec -prune -o -execdir rm {} +', 'find . -exec ls {} + -exec rm {} +', 'find . -newermt -exec -exec env rm {} \\;',
    "find -fprint -exec -okdir rm {} ';'", 'shopt -so histexpand history', 'shopt -o -s posix', 'shopt -s -o histexpand', "set -k; bash -xc ls PS4='$(rm x)'", 'set -o keyword; ls',
    "bash -kxc 'ls PS4=x'", "read -aPS4 <<< '$(rm${IFS}x)'; set -x; ls", 'read -raPS4 <<< x; set -x; ls', 'printf -vPS4 \'%s\' "$(cat f)"', 'printf -vBASH_ENV f',
    "cd /dev; . ./stdin <<< 'rm x'", "cd /dev && bash stdin <<< 'rm x'", "cd /dev/fd; source 0 <<< 'rm x'", "cd /proc/self; . fd/0 <<< 'rm x'", "cd /dev; source ./fd/0 <<< 'rm x'",
    "$'\\162\\155' x", "$'r\\u006d' x", '"r"$\'\\x6d\' x', '${x:-r}m x', 'r${x:-m} x', '${x:-r}${y:-m} x', '{r,}m x', '{/bin/,}rm x', '/bin/{rm,ls} x', '/???/rm x', '/bin/r{m..m} x',
    '$(printf rm) x', '$(<f) x', '"$(which rm)" x', '`which rm` x', '$(command -v rm) x', 'exec $(which rm) x', 'a=(rm x); "${a[@]}"', 'a=rm; ${a} x', 'a=rm; b=a; ${!b} x',
    'set -- rm x; "$@"', 'set rm x; $1 $2', 'read c <<< rm; $c x', 'printf -v c rm; $c x', 'mapfile -t c <<< rm; ${c[0]} x', 'IFS=,; c=rm,x; $c', 'c=mr; ${c:1:1}${c:0:1} x',
    'c=RM; ${c,,} x', 'eval "$(echo rm x)"', 'eval r${z}m x', "eval $'rm x'", 'eval \'r\'"m" x', 'builtin eval rm x', "command eval 'rm x'", ". <(printf 'rm x')",
    "source /dev/fd/3 3<<< 'rm x'", ". /proc/self/fd/0 <<< 'rm x'", 'sh <<E\nrm x\nE', 'cat <<E|sh\nrm x\nE', 'echo rm x | bash /dev/stdin', 'echo rm x | env bash',
    'echo rm x | xargs -I{} {}', 'echo rm x | xargs -I % sh -c %', 'echo x | xargs -a f rm', 'echo x|xargs --max-args=1 rm', 'xargs --replace=X rm X', 'xargs -d, -- rm', "env -iS 'rm x'",
    "env --split-string 'rm x'", 'env --chdir=/ rm x', 'env -C/ rm x', 'env a=b c=d nice rm x', 'env nice nohup timeout 5 stdbuf -o0 setsid rm x', 'nice -n19 ionice -c3 rm x',
    'ionice -c 2 -n 7 rm x', 'chrt -i 0 rm x', 'taskset -c 0-1 rm x', 'unshare --map-root-user --mount rm x', 'nsenter -t 1 -m rm x', 'nsenter --target 1 --mount -- /bin/rm x',
    'setpriv --no-new-privs rm x', 'prlimit --nproc=5 rm x', 'setarch x86_64 -R rm x', 'linux32 rm x', 'strace -f rm x', 'strace -o /dev/null -e trace=open rm x', 'ltrace -f rm x',
    'parallel rm ::: x', "parallel 'rm {}' ::: x", 'echo x | parallel -j2 rm', "script -c 'rm x' /dev/null", "script -qec 'ls; rm x' f", "sg users 'rm x'", 'runuser -u me -- rm x',
    'pkexec rm x', 'systemd-run --user rm x', 'start-stop-daemon --start --exec /bin/rm -- x', "busybox sh -c 'rm x'", "busybox ash -c 'rm x'", '/bin/busybox rm x', 'coreutils rm x',
    'coreutils --coreutils-prog=rm x', '/lib64/ld-linux-x86-64.so.2 /bin/rm x', 'ld.so --preload x /usr/bin/rm x', 'fakeroot rm x', 'firejail --quiet rm x', "tmux new-session -d 'rm x'",
    'screen -dm rm x', 'dbus-run-session -- rm x', 'xvfb-run rm x', 'watch -n1 -x rm x', "watch --interval=1 'ls|rm'", "flock f sh -c 'rm x'", "flock -n f -c 'rm x'",
    'flock -x f /bin/rm x', 'time -p -- rm x', '\\time rm x', "'time' rm x", 'command time -o f rm x', 'gtimeout 5 rm x', 'genv rm x', 'grm x', 'gfind . -exec rm {} +', 'gxargs rm',
    'exec -a ls -c rm x', 'exec -la ls rm x', '(exec rm x)', 'builtin command builtin exec rm x', 'command -p -- rm x', 'coproc x { rm x; }', "trap 'ls; rm x' 0", "trap -- $'rm x' SIGTERM",
    'trap "rm" DEBUG; ls', "PROMPT_COMMAND='rm x'", "export PROMPT_COMMAND='rm x'; bash -i", 'env BASH_ENV=f bash -c ls', 'env "BASH_E""NV=f" bash -c ls', 'declare -x BASH_ENV=f',
    'ENV=f sh -i', "env 'BASH_FUNC_ls%%=() { rm x; }' bash -c ls", 'hash -p /bin/rm ls', 'hash -tp /bin/rm ls', 'enable -f ./x.so rm', 'enable -nf ./x.so y', 'alias ls=rm', '\\alias ls=rm',
    'unalias -a; alias l=rm', 'BASH_ALIASES[l]=rm', "compgen -C 'rm x' a", "complete -o default -C 'rm' l", 'fc -e rm', 'history -s rm; fc -s', 'f() { rm x; }', 'f()\n{ rm x\n}',
    'function f\n{ rm x; }', 'f() { "$@"; }; f rm x', 'f() { command "$@"; }; f rm x', 'f() { eval "$1"; }; f \'rm x\'', 'command_not_found_handle() { "$@"; }', 'ls() { /bin/"$@"; }',
    'case rm in r*) rm x;; esac', 'case $((1)) in 1) /bin/rm x;; esac', 'select i in rm; do $i x; done', 'for c in rm; do $c x; done', 'while read c; do $c x; done <<< rm',
    '[[ -n $(rm x) ]]', '[[ x = $(rm x) ]]', "[[ 1 -eq 'a[$(rm x)]' ]]", '(( $(rm x) ))', ': $((a[$(rm x)]))', 'a[$(rm x)]=1', ': ${a[$(rm x)]}', ': ${a:$(rm x)}', ': ${a/$(rm x)/b}',
    ': ${a%%$(rm x)}', ': ${a^^$(rm x)}', ': "${a:-${b:-$(rm x)}}"', ': "${a:?$(rm x)}"', 'cat <<E\n${a:-`rm x`}\nE', 'cat <<E\n\\\\$(rm x)\nE', 'cat <<-E\n\t$(rm x)\n\tE',
    "cat << 'E' | sh\nrm x\nE", 'tee >(rm x) < f', 'cat < <(rm x)', 'wait -npa[$(rm x)]', "unset -v 'a[$(rm x)]'", "let 'a[$(rm x)]'", 'rm\u3000x', 'r\u200bm x', 'ls;\u200brm x',
    '"s\u200cudo" ls', '\u017fudo ls', '\uff52\uff4d x', 'ls # \\\nrm x', 'ls \\\nrm x; rm y', "r'\n'm; rm x", '#\nrm x', 'echo a#b; rm x', 'echo a #b\nrm x', '!! ; rm x', '!rm', '^ls^rm',
    'ls | while :; do rm x; done', 'if ! rm x; then :; fi', '{ ls; } && rm x', '( ls ) ; rm x', 'ls||rm x', 'ls &&\nrm x', 'ls |\nrm x', '>f<g rm x', '3>f rm x', 'a=b c=d rm x',
    'a[1]=b rm x', 'a+=b rm x', 'time ! rm x', '! time rm x', 'sudo -u me ls', '/usr/bin/sudo ls', "su -c 'rm x'", "bash-static -c 'rm x'", "oksh -c 'rm x'",
    'bash -c "bash -c \'bash -c \\"rm x\\"\'"', "bash -euxo pipefail -c 'rm x'", "bash -o pipefail -O nullglob -c 'rm x'", "bash --norc --noprofile -c 'rm x'", "bash -c -- 'rm x'",
    "x='a[$(rm x)]'; z=([x]=1)", "x='a[$(rm x)]'; z+=([x]=1)", "SECONDS='a[$(rm x)]'", "read RANDOM <<< 'a[$(rm x)]'", "for OPTIND in 'a[$(rm x)]'; do :; done",
    "printf -v SRANDOM 'a[$(rm x)]'", "export HISTCMD='a[$(rm x)]'", "wait -np 'a[$(rm x)]'", "wait -f -n -p 'a[$(rm x)]'", "echo rm x | xargs -I X -L 1 env", "echo rm x | xargs -IX -n1 nice", "echo rm x | xargs -i -l env",
    "echo rm x | xargs --replace=X --max-args=1 env", "echo rm x | bash -- /run/../dev/std?n", "cd /tmp; echo rm x | bash -- ../dev/std?n", "cd /dev; echo rm x | sh -- std?n", "f=../dev/stdin; echo rm x | bash -- \"/tmp/$f\"",
    "echo rm x | bash -- a/../dev/std{in,in}", "ssh-agent rm x", "x86_64 rm x", "choom -n 1 -- rm x", "numactl -C 0 rm x", "perf stat rm x", "dumb-init rm x", "tini -- rm x", "bwrap --bind / / rm x",
    'bash -c \'eval "$0"\' \'rm x\'', 'bash -c \'"$0" "$1"\' rm x', "bash -c '$1 x' _ rm", 'sh -c \'sh ./"$1"\' _ rm',
]  # fmt: skip
ONE_SHELL = [
    ("zsh", 'a==(rm x)'), ("zsh", 'cat =(rm x)'), ("zsh", ': ${x:-=(rm x)}'), ("zsh", 'set -o braceccl; r{m} x'), ("zsh", 'set -o promptsubst'), ("zsh", 'set -o aliases'),
    ("zsh", "ls *(e:'rm x':)"), ("zsh", "zstyle -e a b 'rm x'; zstyle -s a b v"), ("zsh", "integer x='a[$(rm x)]'"), ("zsh", "float x='a[$(rm x)]'"), ("zsh", "printf %d 'a[$(rm x)]'"),
    ("zsh", "exit 'a[$(rm x)]'"), ("zsh", "[ 'a[$(rm x)]' -eq 0 ]"), ("zsh", "$'r\\x{6d}' x"), ("zsh", "$'\\C-?rm' x"), ("zsh", '() { rm x }'), ("zsh", 'if true { rm x }'),
    ("zsh", 'repeat 1 rm x'), ("zsh", '{ ls } always { rm x }'), ("zsh", 'zpty a rm x'), ("ksh", "$'\\x{72}\\x{6d}' x"), ("ksh", "set -A PS4 '$(rm x)'; set -x; ls"),
    ("ksh", 'typeset -T T=(\nfunction create\n{\nrm x\n}\n)'), ("ksh", 'nameref r=PS4'), ("ksh", "test 'a[$(rm x)]' -eq 0"), ("ksh", "printf '%d' 'a[$(rm x)]'"),
    ("ksh", "shift 'a[$(rm x)]'"), ("ksh", "x=$(( 'a[$(rm x)]' ))"), ("ksh", '${ rm x; }'), ("ksh", 'namespace n { rm x; }'), ("ksh", 'rm x |&'), ("sh", "exit 'a[$(rm x)]'"),
    ("fish", 'parallel rm ::: x'), ("fish", 'command env A=1 rm x'), ("fish", 'functions -c ls l'), ("fish", 'xargs -n1 rm'), ("fish", 'echo a#b; rm x'), ("fish", 'begin; end | rm'),
    ("fish", 'ls (rm x)'), ("fish", 'set x (rm x)'), ("pwsh", 'echo a#b; rm x'), ("pwsh", 'ls -Filter x#y; rm x'), ("pwsh", 'find . -exec rm'), ("pwsh", 'xargs rm'),
    ("pwsh", 'ls | % { rm $_ }'), ("pwsh", '&{rm x}'), ("pwsh", '.{rm x}'), ("pwsh", 'if(1){rm x}'), ("pwsh", 'try{rm x}catch{}'), ("pwsh", '$f={rm x}; &$f'),
    ("pwsh", '(gcm rm) | % Invoke'), ("pwsh", 'ls "$(rm x)"'), ("pwsh", 'ls @(rm x)'), ("pwsh", 'rm`'), ("pwsh", '"rm" | iex'), ("cmd", 'find . -exec del x'), ("cmd", 'timeout 5 del x'),
    ("cmd", 'sh -c "del x"'), ("cmd", 'busybox del x'), ("cmd", 'dir&del x'), ("cmd", 'dir|del x'), ("cmd", '<nul del x'), ("cmd", 'del>nul x'), ("cmd", '.\\del x'),
    ("zsh", "hash l=/bin/rm; l x"), ("zsh", "disable -r '[['; eval '[[ x || rm x ]]'"), ("zsh", "x='a[$(rm x)]'; echo $a[x]"), ("zsh", "x='a[$(rm x)]'; echo \"$a[x]\""), ("zsh", "x='a[$(rm x)]'; exit x"),
    ("zsh", "x='a[$(rm x)]'; printf %d x"), ("ksh", "x='a[$(rm x)]'; [ x -gt 1 ]"), ("sh", "x='a[$(rm x)]'; ulimit -n x"), ("sh", "PGRP='a[$(rm x)]'"), ("ksh", "COLUMNS='a[$(rm x)]'"), ("zsh", "x='a[$(rm x)]'; read -t x y"),
    ("pwsh", 'exit rm x'), ("pwsh", 'throw rm x'), ("pwsh", "$alias:l = 'rm'; l x"), ("pwsh", 'ni alias:l -value rm; l x'), ("pwsh", 'set-content Function:l rm; l x'), ("pwsh", 'copy-item alias:ri alias:l; l x'),
    ("cmd", '"C:\\x\\del.exe" x'), ("cmd", '%ComSpec% /c del x'), ("cmd", '!x!'), ("cmd", 'cmd /v:on /c del x'),
]  # fmt: skip
# Text that arithmetic runs later, other names of a variable, and words that a starter takes for its program.
LATER = [
    "true 'a[$(rm x)]'; ((_))", "f() { ((${1})); }; f 'a[$(rm x)]'", "bash -c '(($0))' 'a[$(rm x)]'", "env x='a[$(rm x)]' bash -c '((x))'", "true 'a[`rm x`]'; echo $((_))",
    "cd 'a[$(rm x)]'; cd -; ((OLDPWD))", "true \"a[\\$(rm x)]\"; ((_))", "x=${BASH_EXECUTION_STRING##*# }; ((x)) # a[$(rm x)]", "declare -n r=BASH_CMDS; r[ls]=/bin/rm; ls x", "local -n r=$1", "typeset -n r=PS4",
    "x=-exec; find . ! -name -name \"$x\" rm x \\; -quit", "setarch x86_64 $x v", "setarch x86_64 /usr/bin/r[m] x", "xargs setarch x86_64 $x", "choom -n 0 $x v", 'script -q /dev/null -c "$x"', 'sg root -c "$x"',
    "ld.so --argv0 x /usr/bin/r[m] x", "script -qc'rm${IFS}x'", "script --command='rm${IFS}x'", "strace -o '|rm${IFS}x' true", "strace --output='|rm${IFS}x' true",
]  # fmt: skip
EVERYDAY = [
    "sleep 1; echo 'run `make` now'", "echo 'see $(date)'; exit 1", "parallel gzip ::: *.txt", "strace -f -o log ls *.py", "valgrind --leak-check=full ./a $x",
    "mapfile -t lines < f; echo ${#lines[@]}", "readarray -d '' -t found < <(find . -name '*.py' -print0)", "declare -a x=(1 2 3)", "declare -A m=([a]=1)", "local -r x=$(pwd)",
    "export PS1='(venv) '", "jobs -l", "wait -n", "set -eux", "set -o pipefail; ls | wc", "set +e", "set -- a b; echo $#", "shopt -s nullglob globstar; ls **/*.py", "shopt -u expand_aliases",
    "find . -name '*.o' -newer f -print", "find src -type d -exec ls {} ';' -o -name x", "find . -name a -o -name b", "bash -o pipefail -c 'ls | wc -l'", "bash -O nullglob -c 'ls *'", "sh -eux ./build.sh",
    "bash scripts/test.sh", ". ./2024.env", "printf '%d items\n' 3", "printf '%s\n' '$(date)'", "[ $# -eq 0 ] && echo none", "exit 1", "sleep 0.1; ls", "strace -f ls -l", "parallel echo ::: a b c",
    "prlimit --nproc=5 ls", "tmux ls", "gtime ls", "gcc -o a a.c", "git grep foo", "go test ./...", "echo caf\u00e9", "cat na\u00efve.txt", "echo $'a\\tb'", "read -ra parts <<< 'a b'", "read -rp 'name? ' name < f",
    "for ((i = 0; i < 3; i++)); do echo $i; done", "case $x in rm) echo no;; esac", "echo 'find . -exec rm {} +'", "timeout 5 sh -c 'ls'", "command -v rm", "type -a rm", "printf -v out '%s' x; echo $out",
    "x='$(date)'; [ -n x ] && echo [x]", "echo '$(date)'; [ \"$x\" = abc ]", "echo '`x`'; printf '%d of %d items\\n' 3 4",
    "xargs -n 1 echo < f", "xargs -I {} -P 4 cp {} x", "disable=1; echo $disable", "echo '$(x)'; sleep 1m", "hash -r; hash ls",
]  # fmt: skip

# Programs that run others by what their own arguments, files or variables say, and names that no list can know.
NOT_PROMISED = [
    "awk 'BEGIN { system(\"rm x\") }'", "sed '1e rm x' f", "perl -e 'unlink \"x\"'", "python3 -c 'import os; os.remove(\"x\")'", "ruby -e 'File.delete \"x\"'", "node -e 'require(\"fs\").rmSync(\"x\")'",
    "tar xf a.tar --to-command='rm x'", "tar cf a f --checkpoint-action=exec='rm x'", "git -c alias.z='!rm x' z", "git -c core.pager='rm x' -p log", "git bisect run rm x", "git clean -fdx", "git rm x",
    "find . -delete", "sort --compress-program=rm f", "split --filter='rm x' f", "make -f f", "man -P 'rm x' ls", "rsync -e 'rm x' a b:", "unlink x", "truncate -s 0 x", "mv x /dev/null", "shred -u x", "cmake -E rm x",
    "LD_PRELOAD=./x.so ls", "GIT_PAGER='rm x' git -p log", "PATH=. ls", "echo 'rm x' > f; . ./f", "bash ./f", "./f", "ln -s /bin/rm l; ./l x", "cp /bin/rm l; ./l x", "nvim -c '!rm x'", "ed x <<< '!rm x'",
    "x=$(echo 'a[%(rm x)]' | tr % '$'); ((x))", "docker run -v .:/x alpine sh", "npm run clean",
]  # fmt: skip


def test_a_way_around_is_refused_in_every_shell():
    assert passed(BYPASSES, SHELLS) == []


def test_a_way_around_of_one_shell_is_refused_there():
    assert [row for row in ONE_SHELL if refusal(row[1], row[0]) is None] == []


def test_what_looks_like_one_passes():
    assert not_passed(EVERYDAY, ["bash", "zsh"]) == []


@each_row("shell", ["bash", "sh", "zsh"])
def test_more_commands_than_are_looked_at_are_refused_and_not_passed_over(shell):
    assert refusal(": ;" * 5000 + "rm x", shell) is not None
    assert refusal(": ;" * 5000, shell) is not None
    assert refusal(": ;" * 4000, shell) is None


def test_what_is_not_promised_passes():
    """docs/security-commands.md says that a name is all that is looked at; where this fails, it says too little."""
    assert not_passed(NOT_PROMISED) == []


def test_text_that_runs_later_is_refused_where_it_stands():
    assert passed(LATER) == []
