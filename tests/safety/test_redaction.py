import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each_row
from toolbox_mcp.safety.redaction import MASK, OMITTED, redact, sensitive

SECRET = "hunter2"


@each_row(
    "name",
    """key token secret password passwd passphrase pwd authorization cookie Cookie Set-Cookie X-Api-Key x-api-key X_API_KEY apiKey
    APIKey apikey API_TOKEN accessToken access_token AWS_SECRET_ACCESS_KEY db.password dbPassword sessiontoken client-secret
    Proxy-Authorization auth tls_key TOKEN --password SSHPrivateKey credentials""".split(),  # noqa: SIM905
)
def test_what_stands_under_the_name_of_a_secret_is_masked(name):
    assert sensitive(name)
    given = {"a": [{"b": {name: SECRET, "other": "seen"}}]}
    assert redact(given) == {"a": [{"b": {name: MASK, "other": "seen"}}]}
    assert given["a"][0]["b"][name] == SECRET


@each_row(
    "name",
    [
        "",
        " ",
        *"""path content monkey keyboard author authored tokenizer tokenizer_model token_file key_path token_count secretary passenger
    command old_string cwd compass keynote 0 - é""".split(),  # noqa: SIM905
    ],
)
def test_other_names_hide_nothing(name):
    assert redact({name: SECRET}) == {name: SECRET}


@each_row(
    ("value", "masked"),
    [
        ({"password": 1234}, {"password": MASK}),
        ({"password": {"a": ["b"]}}, {"password": MASK}),
        ({"password": ["a"], "cookies": {"sid": "1"}}, {"password": MASK, "cookies": MASK}),
        (
            {"password": None, "secret": False, "key": "", "token": []},
            {"password": None, "secret": False, "key": "", "token": []},
        ),
        ({"max_tokens": 2000, "tokens": "abc"}, {"max_tokens": 2000, "tokens": MASK}),
        ({1: "a", "n": 2, "f": 0.5, "none": None, "yes": True}, {1: "a", "n": 2, "f": 0.5, "none": None, "yes": True}),
        ([["X-Api-Key", SECRET], ["Accept", "text/plain"]], [["X-Api-Key", MASK], ["Accept", "text/plain"]]),
        ((("cookie", SECRET),), [["cookie", MASK]]),
        ([{"name": "Authorization", "value": SECRET}], [{"name": "Authorization", "value": MASK}]),
        ([{"key": "API_KEY", "value": SECRET}], [{"key": "API_KEY", "value": MASK}]),
        ([{"name": "PATH", "value": "/bin"}], [{"name": "PATH", "value": "/bin"}]),
        (["--password", SECRET, "-v", "x"], ["--password", MASK, "-v", "x"]),
        (["--password", "--verbose"], ["--password", "--verbose"]),
        ([f"--password={SECRET}", "--out=file"], [f"--password={MASK}", "--out=file"]),
        (["-H", f"Authorization: Bearer {SECRET}"], ["-H", f"Authorization: {MASK}"]),
        (["-H", f"X-Auth-Token: {SECRET}"], ["-H", f"X-Auth-Token: {MASK}"]),
        (["API_KEY=" + SECRET, "env"], ["API_KEY=" + MASK, "env"]),
    ],
)
def test_secrets_are_found_in_any_form_that_arguments_take(value, masked):
    assert redact(value) == masked


@each_row(
    "secret",
    [
        "ghp_" + "a1B2" * 9,
        "gho_" + "a1B2" * 9,
        "github_pat_" + "11ABCDE_" * 8,
        "glpat-" + "a1B2-" * 4,
        "sk-" + "a1B2" * 12,
        "sk-proj-" + "a_1-B2" * 8,
        "sk-ant-api03-" + "a1B2" * 12,
        "sk_live_" + "a1B2" * 6,
        "rk_test_" + "a1B2" * 6,
        "xoxb-1234567890-abcdefghij",
        "xapp-1-A0123-456-abcdef0123",
        "AKIA" + "ABCD2345" * 2,
        "ASIA" + "ABCD2345" * 2,
        "AIza" + "a1B2-" * 7,
        "ya29." + "a1B2_" * 7,
        "npm_" + "a1B2" * 9,
        "hf_" + "aBcD" * 9,
        "pypi-" + "AgEIcHlwaS5vcmc" * 3,
        "tvly-" + "a1B2" * 8,
        "SG." + "a1B2" * 5 + "." + "c3D4" * 10,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQOY\n-----END PGP PRIVATE KEY BLOCK-----",
        "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG" * 3 + "abcd\n" + "aB3+" * 16,
        "-----BEGIN PRIVATE KEY-----\\n" + "MIIEvQIBADANBgkqhkiG" * 3 + "abcd\\naB3=\\n-----END PRIVATE KEY-----",
        "hvs.CAESI" + "a1B2" * 8,
        "SK" + "0123456789abcdef" * 2,
        "AKIA" + "ABCD2345" * 2 + " " + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ],
)
@each_row(("before", "after"), [("", ""), ("see ", ""), ("'", ""), ("X_", ""), ("url/", "\n")])
def test_a_token_is_known_by_its_look(secret, before, after):
    assert redact(before + secret + after).startswith(before + MASK)
    assert secret[8:] not in redact(before + secret + after)


@each_row(
    ("text", "masked"),
    [
        (f"curl -H 'Authorization: Basic {SECRET}' x", f"curl -H 'Authorization: {MASK}' x"),
        (f"Authorization: Bearer {SECRET}\nAccept: text/html", f"Authorization: {MASK}\nAccept: text/html"),
        (f"uses bearer {SECRET}.", f"uses bearer {MASK}"),
        (f"Set-Cookie: sid={SECRET}; Path=/\r\nAge: 1", f"Set-Cookie: {MASK}\r\nAge: 1"),
        (f"x-api-key:{SECRET}", f"x-api-key:{MASK}"),
        (f"https://user:{SECRET}@host/path", f"https://user:{MASK}@host/path"),
        (f"postgres://:{SECRET}@host/db", f"postgres://:{MASK}@host/db"),
        (f"https://host/p?api_key={SECRET}&page=2", f"https://host/p?api_key={MASK}&page=2"),
        (f"export AWS_SECRET_ACCESS_KEY={SECRET}; ls", f"export AWS_SECRET_ACCESS_KEY={MASK}; ls"),
        (f"PASSWORD='{SECRET} {SECRET}' run", f"PASSWORD={MASK} run"),
        (f"mysql --password {SECRET} -u me", f"mysql --password {MASK} -u me"),
        (f"mysql --password={SECRET} -u me", f"mysql --password={MASK} -u me"),
        (f'{{"password": "{SECRET}", "n": 1}}', f'{{"password": "{MASK}", "n": 1}}'),
        (json.dumps({"token": 'a"b', "n": 1}), f'{{"token": "{MASK}", "n": 1}}'),
        (json.dumps({"body": json.dumps({"secret": SECRET})}), f'{{"body": "{{\\"secret\\": \\"{MASK}\\"}}"}}'),
        (f"{{'token': '{SECRET}'}}", f"{{'token': '{MASK}'}}"),
        (f"password: {SECRET}", f"password: {MASK}"),
        (f"  password: '{SECRET}'", f"  password: '{MASK}'"),
        (f"db:\n  password: {SECRET} # old\n  user: me", f"db:\n  password: {MASK} # old\n  user: me"),
        (f"password: |\n  {SECRET}\n  {SECRET}\nuser: me", f"password: |\n  {MASK}\n  {MASK}\nuser: me"),
        (
            f"passwords:\n  - {SECRET}\n  - {SECRET}\nusers:\n  - me",
            f"passwords:\n  - {MASK}\n  - {MASK}\nusers:\n  - me",
        ),
        (f"  POSTGRES_PASSWORD: {SECRET}", f"  POSTGRES_PASSWORD: {MASK}"),
        (f"data:\n  token: {SECRET}", f"data:\n  token: {MASK}"),
        (f'password = "{SECRET}"', f'password = "{MASK}"'),
        (f'API_KEY = "{SECRET}"', f'API_KEY = "{MASK}"'),
        (f"aws_secret_access_key = {SECRET}", f"aws_secret_access_key = {MASK}"),
        (f'const apiKey = "{SECRET}";', f'const apiKey = "{MASK}";'),
        (f'let token: string = "{SECRET}"', f'let token: string = "{MASK}"'),
        (f'x := Config{{Password: "{SECRET}",}}', f'x := Config{{Password: "{MASK}",}}'),
        (f'clientSecret: "{SECRET}"', f'clientSecret: "{MASK}"'),
        (f'  Password: "{SECRET}",', f'  Password: "{MASK}",'),
        (f":secret_key_base => '{SECRET}'", f":secret_key_base => '{MASK}'"),
        (f"define('DB_PASSWORD', '{SECRET}');", f"define('DB_PASSWORD', '{MASK}');"),
        (f"<password>{SECRET}</password>", f"<password>{MASK}</password>"),
        (f"machine host login me password {SECRET}", f"machine host login me password {MASK}"),
        (f"machine host\n  login me\n  password {SECRET}", f"machine host\n  login me\n  password {MASK}"),
        (f"ENV TOKEN {SECRET}", f"ENV TOKEN {MASK}"),
        (f"curl -u me:{SECRET} https://host", f"curl -u me:{MASK} https://host"),
        (f"mysql -uroot -p{SECRET} db", f"mysql -uroot -p{MASK} db"),
        (f"sshpass -p {SECRET} ssh host", f"sshpass -p {MASK} ssh host"),
        (f"spring.datasource.password: {SECRET}", f"spring.datasource.password: {MASK}"),
        (f"spring.datasource.password={SECRET}", f"spring.datasource.password={MASK}"),
        (f"GITHUB_PAT={SECRET} PGPASS={SECRET} DB_PASS={SECRET}", f"GITHUB_PAT={MASK} PGPASS={MASK} DB_PASS={MASK}"),
        (
            f"https://b.s3.amazonaws.com/k?X-Amz-Signature={SECRET}&a=1",
            f"https://b.s3.amazonaws.com/k?X-Amz-Signature={MASK}&a=1",
        ),
        (f"localhost:5432:db:me:{SECRET}", f"localhost:5432:db:me:{MASK}"),
        (f":key '{SECRET}' and 'api_key' => '{SECRET}'", f":key '{SECRET}' and 'api_key' => '{MASK}'"),
    ],
)
def test_secrets_are_found_inside_texts(text, masked):
    assert redact(text) == masked


@each_row(
    "text",
    [
        "",
        "the key is under the mat",
        "def tokens(key: str) -> int:\n    return cache[key]",
        "for key, value in items: print(key)",
        "ghp_short sk-1 AKIA1 eyJ hf_x",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "author=me keyboard=de monkey=1",
        "https://host:8080/a@b",
        "task-1 risk-assessment-of-everything-there-is",
        "key: value",
        "def login(user: str, password: str) -> Token:",
        "class Login:\n    password: str\n    token: Optional[str]",
        "interface Login { password: string; token: number }",
        "secrets:\n  db:\n    file: x",
        "password = get_password()",
        "token = tokens[0]",
        "docker run -u 1000:1000 image",
        "main.c:12:5: error: expected token",
        "the password: it is the one that you were given by post",
        "first pass, second pass",
        "<key>name</key>x"[5:9],
    ],
)
def test_ordinary_text_is_unchanged(text):
    assert redact(text) == text


@each_row(
    "command",
    [
        'token="$(touch canary)" ls',
        "token=`touch canary` ls",
        "echo Cookie: $(touch canary)",
        "echo Cookie: x; touch canary",
        "echo Authorization: Bearer abc | touch canary",
        ": -----BEGIN PRIVATE KEY-----\ntouch canary",
        ": -----BEGIN PRIVATE KEY-----\nreboot canary\n-----END PRIVATE KEY-----",
        "password='touch canary'; $password",
        "export API_KEY; touch canary",
        "secret: touch canary",
        "password: |\n  touch canary",
        "mysql -p$(touch canary)",
        "curl -u a:$(touch canary) x",
        "--token $(touch canary)",
        "token = '; touch canary'",
        "Authorization: x $(touch canary) bearer abcdefgh",
    ],
)
def test_no_command_is_hidden_by_its_look(command):
    for name in ("command", "code"):
        assert "canary" in redact({name: command})[name]
    assert "canary" in "".join(redact({"args": ["-c", command]})["args"])
    assert "canary" in redact({"commands": [command]})["commands"][0]


@each_row(
    ("value", "masked"),
    [
        ({"env": {"GITHUB_PAT": SECRET, "PGPASS": SECRET}}, {"env": {"GITHUB_PAT": MASK, "PGPASS": MASK}}),
        ({"command": f"mysql -p{SECRET} db"}, {"command": f"mysql -p{MASK} db"}),
        ({"args": ["-u", f"me:{SECRET}", "x"]}, {"args": ["-u", f"me:{MASK}", "x"]}),
        ({"args": ["-u", "1000:1000"]}, {"args": ["-u", "1000:1000"]}),
        ({"command": f"TOKEN={SECRET} ls; touch x"}, {"command": f"TOKEN={MASK} ls; touch x"}),
        (
            {"command": f"curl -H 'Authorization: Bearer {SECRET}' x"},
            {"command": f"curl -H 'Authorization: {MASK}' x"},
        ),
    ],
)
def test_secrets_are_masked_in_commands(value, masked):
    assert redact(value) == masked


def test_what_is_nested_beyond_all_reason_is_masked_without_a_crash():
    deep: Any = SECRET
    for n in range(100_000):
        deep = [deep] if n % 2 else {"a": deep}
    masked = redact(deep)
    levels = 0
    while masked != MASK:
        masked = masked[0] if isinstance(masked, list) else masked["a"]
        levels += 1
    assert levels == 64


def test_no_more_is_looked_at_than_asked_for():
    assert redact("abcdef", most=3) == "abc" + OMITTED
    assert redact(["abc", "abc", "abc", "abc", "x"], most=3) == ["abc", "abc", "abc", OMITTED]
    assert redact({"a": "x" * 9, "b": "y" * 9, "c": 1, "d": 2}, most=4) == {
        "a": "xxxx" + OMITTED,
        "b": "y" + OMITTED,
        OMITTED: 2,
    }


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_keeps_its_shape_and_never_fails(value):
    masked = redact(value)
    assert type(masked) is type(value) or masked == MASK
    if isinstance(value, dict):
        assert masked.keys() == value.keys()
    assert redact(masked) == masked


@each_row(
    "unit",
    [
        "a",
        "=",
        "-",
        "key=",
        "'key':",
        '\\"key\\":\\"',
        "-----BEGIN PRIVATE KEY-----",
        "eyJaaaaaaaaa.",
        "key: ",
        "https://a:",
        "bearer ",
        "key.b-",
        "--key ",
        "sk-",
        "\nkey\n",
        "X-Key:",
    ],
)
def test_the_work_grows_no_faster_than_the_text(unit):
    """A quadratic expression needs minutes here, which the time limit of the run ends."""
    redact(unit * (1_000_000 // len(unit)))
