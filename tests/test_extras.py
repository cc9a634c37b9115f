"""Extras of the package: each is listed with its missing packages and the command that installs them."""

from importlib import metadata

from edge_embed import extras
from edge_embed.extras import list_extras
from edge_embed.inspection.doctor import diagnose


def test_extras_for_users_are_all_listed():
    declared = set(metadata.metadata("edge-embed").get_all("Provides-Extra")) - {"all", "dev"}
    assert {extra.name for extra in list_extras()} == declared
    for extra in list_extras():
        assert extra.command == f'python -m pip install "edge-embed[{extra.name}]"'
        assert extra.purpose


def test_extras_name_missing_packages_also_of_nested_extras(monkeypatch):
    version = extras.metadata.version

    def without(name):
        if name in ("ai-edge-litert", "transformers"):
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(extras.metadata, "version", without)
    lacks = {extra.name: extra.lacks for extra in list_extras()}
    assert lacks["transformers"] == ("transformers",)
    assert lacks["tflite"] == ("ai-edge-litert",)
    assert "ai-edge-litert" in lacks["tflite-models"]
    report = diagnose()
    assert report.ok  # a missing extra is no failure
    assert (
        "transformers (folders of transformers models): transformers missing: python -m pip install "
        '"edge-embed[transformers]"'
    ) in str(report)


def test_extras_of_uninstalled_package_are_empty(monkeypatch):
    def none(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(extras.metadata, "requires", none)
    assert list_extras() == ()
