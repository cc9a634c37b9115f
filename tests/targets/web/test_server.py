"""The server that gives a page its job."""

import urllib.error
import urllib.request

import pytest

from edge_embed.targets.web.server import JobServer


class TestServer:
    @pytest.fixture
    def server(self, tmp_path):
        (tmp_path / "model.onnx").write_text("the model")
        (tmp_path / "secret").write_text("secret")
        with JobServer({"model.onnx": tmp_path / "model.onnx"}, {"result.json": tmp_path / "result.json"}) as server:
            yield server

    @pytest.mark.parametrize("path", ["model.onnx", "{wrong}model.onnx", "{base}secret", "{base}../secret", ""])
    def test_server_gives_its_page_only_its_files(self, server, path):
        origin = f"http://127.0.0.1:{server.server_port}"
        with urllib.request.urlopen(f"{origin}{server.base}model.onnx") as answer:
            assert answer.read() == b"the model"
        asked = "/" + path.format(base=server.base[1:], wrong="x" * 22 + "/")
        for method in ("GET", "PUT"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(origin + asked, b"x", method=method))
            refused.value.close()
            assert refused.value.code == 404
        assert not server.ended

    def test_result_that_cannot_be_stored_ends_job(self, server, tmp_path):
        (tmp_path / "result.json").mkdir()
        with pytest.raises(OSError, match=r"closed|reset|refused"):
            url = server.url.replace("page.html", "result.json")
            urllib.request.urlopen(urllib.request.Request(url, b"{}", method="PUT"))
        assert "cannot be stored" in server.failure
