import hashlib

from toolbox_mcp.server.call.exposure import ExposurePolicy


async def test_a_download_is_placed_whole_named_by_its_hash_and_undoable(call, site, here, project):
    data = bytes(range(256)) * 100
    site.page("/a.bin", data, "application/octet-stream")
    answer = await call("download_file", url=f"{here}/a.bin", path="sub/a.bin")
    digest = hashlib.sha256(data).hexdigest()
    assert f"Downloaded {len(data)} bytes from {here}/a.bin to sub/a.bin (sha256 {digest})" in answer
    assert (project / "sub/a.bin").read_bytes() == data
    await call("undo")
    assert not (project / "sub/a.bin").exists()


async def test_a_download_that_fails_leaves_nothing(call, site, here, project):
    (project / "there.txt").write_text("kept")
    (project / "folder").mkdir()
    site.page("/big", b"x" * 3_000_000, "text/plain")
    table = [
        ("/none", "a", {}, "http_error"),
        ("/big", "a", {}, "too_large"),
        ("/big", "folder", {}, "is_a_directory"),
        ("/big", "there.txt", {"overwrite": False}, "exists"),
        ("/big", "../a", {}, "path_denied"),
        ("/big", ".git/config", {}, "protected_path"),
    ]
    wrong = [
        (path, code) for target, path, more, code in table
        if await call.code("download_file", url=here + target, path=path, **more) != code
    ]  # fmt: skip
    assert wrong == []
    assert sorted(each.name for each in project.iterdir()) == ["folder", "there.txt"]
    assert (project / "there.txt").read_text() == "kept"


async def test_downloads_are_for_the_operator_to_enable(call, here):
    call.gate = ExposurePolicy()
    assert await call.code("download_file", url=f"{here}/", path="a") == "exec_disabled"
