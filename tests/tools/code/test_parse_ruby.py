import pytest

SOURCE = """\
module Shop
  LIMIT ||= 1
  class Cart
    def add(x); end
    def self.build; end
    class << self
      def create; end
    end
  end
end
"""


@pytest.mark.parametrize(
    ("arguments", "outline"),
    [
        ({}, ("1: module Shop\n2:   constant LIMIT\n3:   class Cart\n4:     method add\n5:     method self.build\n"
             "6:     class << self\n7:       method create")),
        ({"kind": "method"}, "4:     method add\n5:     method self.build\n7:       method create"),
        ({"kind": "constant"}, "2:   constant LIMIT"),
        ({"query": "CART"}, "3:   class Cart"),
        ({"query": "shop::c"}, "3:   class Cart"),
        ({"query": "Cart#add"}, "4:     method add"),
        ({"query": "Shop::Cart#add"}, "4:     method add"),
        ({"query": "Cart.build"}, "5:     method self.build"),
        ({"query": "self.b"}, "5:     method self.build"),
        ({"query": "a", "kind": "class"}, "3:   class Cart"),
        ({"query": "nothing"}, "no definitions found in a.rb"),
        ({"query": "", "kind": ""}, ("1: module Shop\n2:   constant LIMIT\n3:   class Cart\n4:     method add\n"
                                    "5:     method self.build\n6:     class << self\n7:       method create")),
    ],
)  # fmt: skip
async def test_definitions_come_with_their_lines_and_levels(call, project, arguments, outline):
    (project / "a.rb").write_text(SOURCE)
    assert await call("parse_ruby", path="a.rb", **arguments) == outline


async def test_a_syntax_error_leaves_what_parsed_and_is_named(call, project):
    table = {
        "class A\n  def m; end\nend\ndef (\n": "1: class A\n2:   method m\n(syntax error near line 4)",
        "class A\n  def m\n  end\n": "1: class A\n2:   method m\n(syntax error near line 1)",
        "": "no definitions found in a.rb",
        "puts 1\n": "no definitions found in a.rb",
    }
    failed = []
    for text, outline in table.items():
        (project / "a.rb").write_text(text)
        if (answer := await call("parse_ruby", path="a.rb")) != outline:
            failed.append((text, answer))
    assert failed == []


async def test_what_is_refused(call, project):
    (project / "bad.rb").write_text("%%% (((\n")
    (project / "nul.rb").write_bytes(b"\0")
    (project / "big.rb").write_bytes(b"#" * (5 * 2**20 + 1))
    (project / "plain.txt").write_text("class A; end\n")
    table = {
        "bad.rb": "parse_error",
        "nul.rb": "binary_file",
        "big.rb": "too_large",
        "no.rb": "not_a_file",
        ".": "not_a_file",
    }
    assert {path: await call.code("parse_ruby", path=path) for path in table} == table
    assert await call.code("parse_ruby", path="bad.rb", kind="function") == "bad_kind"
    assert await call.code("parse_ruby", path="bad.rb", kind=["class"]) == "bad_kind"
    assert await call("parse_ruby", path="plain.txt") == "1: class A"


async def test_nothing_is_run(call, project):
    (project / "a.rb").write_text(
        f"File.write('{project}/ran', '')\nBEGIN {{ File.write('{project}/ran', '') }}\nA = `touch {project}/ran`\n"
    )
    assert await call("parse_ruby", path="a.rb") == "3: constant A"
    assert not (project / "ran").exists()
