"""Python packages made on the spot, so that tests install something without a network."""

import sys
import zipfile
from pathlib import Path

from tests.support.requirements import lack

UV = Path(sys.prefix) / "bin/uv"


def need_uv() -> None:
    if not UV.exists():
        lack("uv is not installed beside the Python that runs the tests")


def make_wheel(folder: Path, name: str, version: str = "1.0") -> Path:
    """A package with one module that has a `VERSION`."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(file, text)
    return wheel


def only_from(folder: Path) -> dict[str, str]:
    """Variables with which uv and pip install packages from this directory, and from nowhere else."""
    return {
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(folder),
        "UV_OFFLINE": "1",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
    }
