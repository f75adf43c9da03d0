"""Build of the distribution ``sm100sim``: its wheels carry the engine compiled, beside the sources.

This folder is the package itself, so that a checkout needs no build; hence ``package_dir``. The
compiled libraries are listed in ``engine/shipped.py``.
"""

import importlib.util
import shutil
import sys
from pathlib import Path

from setuptools import Distribution, find_namespace_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).parent.resolve()
OF_REPOSITORY = (
    "tests/sim", "docs/quick_start.md", "docs/patterns.md", "docs/simulator.md", "docs/programs.md",
    "docs/checking.md", "docs/instructions.md",
)  # fmt: skip
"""What an sdist takes from the repository around this folder."""


def load_package() -> None:
    """Import the package from this folder, whatever the folder is called."""
    places = [str(HERE)]
    spec = importlib.util.spec_from_file_location("sm100sim", HERE / "__init__.py",
                                                  submodule_search_locations=places)  # fmt: skip
    package = importlib.util.module_from_spec(spec)
    sys.modules["sm100sim"] = package
    spec.loader.exec_module(package)


class BuildWithLibraries(build_py):
    """Copies the package and compiles its libraries into the copy."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Return the modules of a package, of which this file is none."""
        found = super().find_package_modules(package, package_dir)
        return [module for module in found if Path(module[2]).name != "setup.py"]

    def run(self) -> None:
        """Copy and, unless the package is used where it lies, compile."""
        super().run()
        if not self.editable_mode:
            load_package()
            from sm100sim import libraries
            from sm100sim.engine.build import find_compiler
            from sm100sim.engine.shipped import FOLDER, compile_levels

            target = Path(self.build_lib, "sm100sim", FOLDER.name)
            stand_ins = [libraries.stand_in(name) for name in libraries.STAND_INS]
            for library in (libraries.engine(), libraries.shim(), *stand_ins):
                for path in compile_levels(library, target, find_compiler()):
                    self.announce(f"compiled {path}", level=2)


class Binary(Distribution):
    """A distribution whose wheels depend on the processor."""

    def has_ext_modules(self) -> bool:
        """Say so."""
        return True


class AnyPython(bdist_wheel):
    """A wheel whose libraries do not know Python: one for all its versions."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of Python, its binary interface, and the platform."""
        return "py3", "none", super().get_tag()[2]


class WithTests(sdist):
    """An sdist with the tests and the pages of the repository."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Add them, where there is a repository around this folder."""
        super().make_release_tree(base_dir, files)
        for name in OF_REPOSITORY:
            source, target = HERE.parent / name, Path(base_dir) / name
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, target, dirs_exist_ok=True, ignore=ignored)
            elif source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)


NO_PACKAGES = ("build*", "dist*", "docs*", "lib*", "tests*", "*.egg-info*", "*__pycache__*")
FOLDERS = find_namespace_packages(str(HERE), exclude=NO_PACKAGES)  # those with C only, too

setup(
    packages=["sm100sim", *(f"sm100sim.{name}" for name in FOLDERS)],
    package_dir={"sm100sim": "."},
    package_data={"": ["py.typed", "*.c", "*.h", "*.toml"]},
    distclass=Binary,
    cmdclass={"build_py": BuildWithLibraries, "bdist_wheel": AnyPython, "sdist": WithTests},
)  # fmt: skip
