"""Where programs come from, and where what is built of them is kept.

``SM100SIM_PROGRAMS`` names the folder (``.venv-programs`` of this repository otherwise):

    src/OWNER+NAME     a copy of each repository; `git clone` it there
    env/OWNER+NAME     an environment for each project with packages
    built/OWNER+NAME   executables
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from sm100sim.driver.serve.place import furnish

from .catalogue import Program, Project

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = Path(os.environ.get("SM100SIM_PROGRAMS", ROOT / ".venv-programs"))
PTX: Final = ("-gencode", "arch=compute_100a,code=compute_100a")
APART: Final = "-rdc=true"
LINKED: Final = ("-gencode", "arch=compute_100a,code=[sm_100a,compute_100a]")
"""For files that are compiled apart: nvcc 13.0 cannot link images without machine code."""
NATIVE: Final = "SM100SIM_PROGRAMS_NATIVE"
"""Variable: the architecture of a GPU here, such as sm_90, for which executables are built, too."""
TARGET: Final = "sm_100a"
BUILD_SECONDS: Final = 900


class Unbuilt(Exception):
    """A program cannot be built or found; the message says why."""


def environment(project: Project) -> Path:
    """The Python of a project's environment; this one's for projects without packages."""
    if not project.packages:
        return Path(sys.executable)
    return FOLDER / "env" / project.folder / "bin" / "python"


def install(project: Project) -> None:
    """Make the environment of a project, if it is not there.

    Raises:
        subprocess.CalledProcessError: no environment, or no such package.
    """
    python = environment(project)
    if project.packages and not python.is_file():
        subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *project.packages], check=True)


def packages(project: Project) -> Path:
    """The folder of the packages of a project's environment.

    Raises:
        Unbuilt: there is no such environment.
    """
    found = sorted(environment(project).parent.parent.glob("lib/python*/site-packages"))
    if not found:
        raise Unbuilt(f"no environment for {project.name}")
    return found[0]


def sources(project: Project) -> Path:
    """The folder that the paths of a project's programs start from.

    Raises:
        Unbuilt: there is no copy of the repository, or it is of another revision.
    """
    if project.packaged:
        return packages(project)
    copy = FOLDER / "src" / project.repository
    if not copy.is_dir():
        raise Unbuilt(f"no copy of {project.name} at {copy}")
    said = ["git", "-C", str(copy), "rev-parse", "HEAD"]
    head = subprocess.run(said, capture_output=True, text=True, check=True).stdout.strip()
    if not head.startswith(project.revision):
        raise Unbuilt(f"{copy} is at {head[:9]}; the list is for {project.revision}")
    return copy


def _targets() -> tuple[str, ...]:
    """What nvcc compiles for: PTX for the simulator, and machine code for a GPU that is here."""
    native = os.environ.get(NATIVE)
    if not native:
        return PTX
    return (*PTX, "-gencode", f"arch={native.replace('sm', 'compute')},code={native}")


def _driver() -> Path:
    """A folder with the stand-in for the driver, since linking needs one."""
    folder = FOLDER / "lib"
    if not (folder / "libcuda.so").exists():
        folder.mkdir(parents=True, exist_ok=True)
        furnish(folder)
    return folder


def _compiler(project: Project, program: Program, target: Path) -> list[str]:
    copy = sources(project)
    inputs = [str(copy / name) for name in (program.file, *program.also)]
    flags = [word.replace("{copy}", str(copy)) for word in program.flags]
    if project.built == "mojo":
        mojo = environment(project).with_name("mojo")
        return [str(mojo), "build", *flags, "--target-accelerator", TARGET, "-o", str(target),
                *inputs]  # fmt: skip
    if "-lcuda" in flags:
        flags.append(f"-L{_driver()}")
    targets = LINKED if APART in flags else _targets()
    return ["nvcc", *targets, "-lineinfo", "-w", "-o", str(target), *inputs, *flags]


def _built_name(program: Program, host: bool) -> str:
    """Of the executable: entries that differ in their arguments alone share it."""
    text = repr((program.file, program.also, program.flags, host and program.reference))
    return f"{Path(program.file).stem}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def built(project: Project, program: Program, *, host: bool = False) -> Path:
    """The executable, or the script; compiled if it is not there.

    Args:
        project: of the program.
        program: what to build.
        host: its reference instead, a program without a kernel.

    Raises:
        Unbuilt: the compiler refuses it or takes too long.
    """
    if project.built == "script":
        return sources(project) / program.file
    if project.built == "pytest":
        return packages(project) / "pytest" / "__main__.py"
    target = FOLDER / "built" / project.folder / _built_name(program, host)
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".unfinished")
    words = _compiler(project, program, unfinished)
    if host:
        words[1:1] = program.reference.split()
    if program.image:
        source, image = (str(sources(project) / name) for name in program.image)
        includes = [word for word in words if word.startswith("-I")]
        kind = "-ptx" if image.endswith(".ptx") else "-fatbin"
        how = ("-arch=compute_100a",) if kind == "-ptx" else _targets()
        _compile(project, ["nvcc", *how, kind, *includes, "-o", image, source])
    _compile(project, words)
    unfinished.rename(target)
    return target


def _compile(project: Project, words: list[str]) -> None:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False,
            cwd=sources(project),
        )  # fmt: skip
    except (subprocess.TimeoutExpired, FileNotFoundError) as error:
        raise Unbuilt(str(error)) from None
    if done.returncode:
        told = [line for line in (done.stderr + done.stdout).splitlines() if "error" in line]
        raise Unbuilt((told or ["the compiler failed"])[0][-300:])
