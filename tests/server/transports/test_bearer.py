from tests.tables import each_row
from toolbox_mcp.server.transports.http.bearer import digests, principal_of

ALICE, BOB = "a" * 32, "b" * 31 + "="
TOKENS = digests({"alice": ALICE, "bob": BOB})


@each_row(
    ("headers", "principal"),
    [
        ([f"Bearer {ALICE}"], "alice"),
        ([f"bearer {BOB}"], "bob"),
        ([f"BEARER  {BOB} "], "bob"),
        ([], None),
        ([""], None),
        (["Bearer"], None),
        (["Bearer "], None),
        ([ALICE], None),
        ([f"Basic {ALICE}"], None),
        ([f"Bearer{ALICE}"], None),
        ([f"Bearer {ALICE[:-1]}"], None),
        ([f"Bearer {ALICE}a"], None),
        ([f"Bearer {ALICE.upper()}"], None),
        ([f"Bearer {ALICE} {BOB}"], None),
        ([f"Bearer {ALICE},"], None),
        ([f"Bearer {ALICE}", f"Bearer {ALICE}"], None),
        ([f"Bearer {TOKENS[0][1].hex()}"], None),
        (["Bearer \u00e9" + ALICE], None),
    ],
)
def test_a_token_stands_for_its_principal_and_nothing_else_does(headers, principal):
    assert principal_of([h.encode("latin-1") for h in headers], TOKENS) == principal


def test_without_tokens_nothing_matches_not_even_nothing():
    assert principal_of([b"Bearer x"], ()) is None
    assert principal_of([], ()) is None
