"""Programs on the stand-in driver: each checks its own results and prints "right"."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sm100sim.driver.base.arena import FIRST_ADDRESS, PROGRAM_BYTES
from sm100sim.driver.serve.place import furnish

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent / "programs"
NVCC, MOJO = shutil.which("nvcc"), shutil.which("mojo")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not on the path")


def ran(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sm100sim", *map(str, words)], capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def compiled(name: str, folder: Path, *flags: str) -> Path:
    """The program made of a C file."""
    target = folder / name
    line = ["cc", "-O1", "-w", *flags, str(PROGRAMS / f"{name}.c"), "-o", str(target), "-ldl"]
    subprocess.run(line, check=True)
    return target


def by_nvcc(name: str, folder: Path, *flags: str) -> Path:
    """The program made of a CUDA file."""
    target = folder / name
    line = [str(NVCC), *flags, str(PROGRAMS / f"{name}.cu"), "-o", str(target)]
    subprocess.run(line, check=True)
    return target


PTX = ("-gencode", "arch=compute_100a,code=compute_100a")


def test_the_driver_api(tmp_path: Path) -> None:
    """Also under all checks: what the program does is no finding."""
    done = ran("check", compiled("driver_api", tmp_path))
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stdout + done.stderr
    assert "cuMipmappedArrayCreate: not modelled by sm100sim's driver" in done.stderr
    assert "an image that holds a cubin; machine code cannot be run here" in done.stderr
    assert "13 launches, 13 clean" in done.stderr


def test_nvjitlink(tmp_path: Path) -> None:
    done = ran("check", compiled("jit_link", tmp_path))
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stdout + done.stderr
    assert "1 launches, 1 clean" in done.stderr


def test_a_launch_that_is_stopped_is_an_error_of_all_later_calls(tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    program = compiled("driver_api", tmp_path)
    done = ran("run", "--output", output, program, "fault")
    assert (done.returncode, done.stdout) == (2, "right\n"), done.stdout + done.stderr
    assert "cuLaunchKernel: beyond was stopped (global-address)" in done.stderr
    assert "the end of `cuMemAlloc_v2 #1` (128 bytes at" in done.stderr
    launches = json.loads(output.read_text())["launches"]
    assert [launch["verdict"] for launch in launches] == ["clean"] * 13 + ["findings"]


def test_parts_of_a_pool_have_bounds_of_their_own(tmp_path: Path) -> None:
    done = ran("run", compiled("driver_api", tmp_path), "pool")
    assert (done.returncode, done.stdout) == (2, "right\n"), done.stdout + done.stderr
    assert "the end of `weights` (128 bytes at" in done.stderr


def test_a_program_of_cuda_12_finds_its_runtime(tmp_path: Path) -> None:
    folder = tmp_path / "libraries"
    folder.mkdir()
    furnish(folder)
    source = (
        "#include <stdio.h>\nint cudaMemGetInfo(size_t *, size_t *);\n"
        "int cudaGetDeviceProperties_v2(void *, int);\n"
        "int main(void) { size_t f, t; char p[1032]; if (cudaMemGetInfo(&f, &t)) return 1;\n"
        "if (cudaGetDeviceProperties_v2(p, 0)) return 2;\n"
        "int *numbers = (int *)p;\n"
        'printf("%zu %d.%d %d\\n", t >> 30, numbers[90], numbers[91], numbers[97]); return !f; }'
    )
    line: list[str | Path] = ["cc", "-w", "-x", "c", "-", "-o", tmp_path / "old", "-xnone"]
    subprocess.run([*line, folder / "libcudart.so.12"], input=source, text=True, check=True)
    done = ran("run", tmp_path / "old")
    # 3: nothing was launched, so nothing is proven.
    assert (done.returncode, done.stdout) == (3, "180 10.0 148\n"), done.stderr


@pytest.mark.slow
def test_a_runtime_inside_the_program_is_replaced(tmp_path: Path) -> None:
    done = ran("run", compiled("runtime_inside", tmp_path))
    assert (done.returncode, done.stdout) == (0, "right: out of memory\n"), done.stderr


def test_a_stripped_program_keeps_its_own_runtime(tmp_path: Path) -> None:
    """Nothing says where its functions are: the calls do not reach the stand-in."""
    done = ran("run", compiled("runtime_inside", tmp_path, "-s"))
    assert done.returncode == 1
    assert done.stdout.startswith("no stand-in")


def test_device_memory_is_not_for_the_host(tmp_path: Path) -> None:
    source = tmp_path / "touch.c"
    source.write_text(
        "#include <stdint.h>\nint cuInit(unsigned); int cuMemAlloc_v2(uint64_t *, uint64_t);\n"
        "int main(void) { uint64_t p; cuInit(0); cuMemAlloc_v2(&p, 64); return *(int *)p; }\n"
    )
    library = tmp_path / "libcuda.so"
    stub = "int cuInit(unsigned f){return f;} int cuMemAlloc_v2(void*p,long n){return 0;}"
    subprocess.run(
        ["cc", "-w", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-x", "c", "-", "-o", library],
        input=stub, text=True, check=True,
    )  # fmt: skip
    subprocess.run(["cc", "-w", source, library, "-o", tmp_path / "touch"], check=True)
    done = ran("run", tmp_path / "touch")
    assert "touch was ended by SIGSEGV" in done.stderr
    assert done.returncode == 128 + 11


@pytest.mark.slow
def test_a_program_with_memory_where_the_devices_would_be(tmp_path: Path) -> None:
    """Allocators place theirs at random; the device's then lies elsewhere."""
    source = tmp_path / "placed.c"
    source.write_text(
        "#include <stdint.h>\n#include <stdio.h>\n#include <sys/mman.h>\n#include <dlfcn.h>\n"
        "int main(void) { uint64_t p = 0; void *lib = dlopen(\"libcuda.so.1\", RTLD_NOW);\n"
        f"mmap((void *){FIRST_ADDRESS + 4096:#x}, 4096, 0, 0x100022, -1, 0);\n"
        "int (*init)(unsigned) = dlsym(lib, \"cuInit\");\n"
        "int (*alloc)(uint64_t *, uint64_t) = dlsym(lib, \"cuMemAlloc_v2\");\n"
        "int (*made)(void **, unsigned, int) = dlsym(lib, \"cuCtxCreate_v2\"); void *context;\n"
        "init(0); made(&context, 0, 0); alloc(&p, 64);\n"
        f"printf(\"%d\\n\", p >= {FIRST_ADDRESS + PROGRAM_BYTES:#x}); return 0; }}\n"
    )
    subprocess.run(["cc", "-w", source, "-o", tmp_path / "placed", "-ldl"], check=True)
    assert ran("run", tmp_path / "placed").stdout == "1\n"


def test_without_the_command_there_is_no_device(tmp_path: Path) -> None:
    program = compiled("driver_api", tmp_path)
    folder = tmp_path / "libraries"
    folder.mkdir()
    furnish(folder)
    variables = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run([program], env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, '"cuInit"))(0): 100' in done.stdout) == (1, True)
    assert "start the program with `python -m sm100sim run`" in done.stderr


def test_the_exit_code_is_the_programs_own() -> None:
    done = ran("run", "sh", "-c", "exit 7")
    assert done.returncode == 7
    assert "the program ended with exit code 7" in done.stderr


@pytest.mark.slow
def test_cuda_python() -> None:
    pytest.importorskip("cuda.bindings")
    done = ran("run", PROGRAMS / "cuda_python.py")
    assert (done.returncode, done.stdout[-6:]) == (0, "right\n"), done.stdout + done.stderr
    assert "1 launches, 1 clean" in done.stderr


@pytest.mark.slow
@needs_nvcc
def test_files_that_were_compiled_apart(tmp_path: Path) -> None:
    """`-rdc=true` links machine code; the images that it linked keep their PTX."""
    program = by_nvcc(
        "separate", tmp_path, "-rdc=true", str(PROGRAMS / "separate_part.cu"),
        "-gencode", "arch=compute_100a,code=[sm_100a,compute_100a]",
    )  # fmt: skip
    done = ran("check", program)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stdout + done.stderr


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["vector_add", "runtime", "tensor_map", "im2col", "wmma", "grid", "textures", "heap",
     "conditions"],
)  # fmt: skip
def test_programs_of_nvcc(name: str, tmp_path: Path) -> None:
    done = ran("check", by_nvcc(name, tmp_path, *PTX))
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stdout + done.stderr


@pytest.mark.slow
@needs_nvcc
def test_an_assertion_of_a_kernel(tmp_path: Path) -> None:
    done = ran("run", by_nvcc("assertion", tmp_path, *PTX))
    assert (done.returncode, done.stdout) == (2, "right\n"), done.stderr
    assert "thread: [30,0,0] Assertion `threadIdx.x < limit` failed" in done.stderr


@pytest.mark.slow
@needs_nvcc
def test_what_kernels_print_is_in_its_place(tmp_path: Path) -> None:
    done = ran("run", by_nvcc("printing", tmp_path, *PTX))
    assert done.stdout == "before\ndevice 0 42\ndevice 1 42\nafter\n", done.stderr


@pytest.mark.slow
@needs_nvcc
@pytest.mark.parametrize(
    "flags",
    [
        ("-cudart", "shared", *PTX),
        ("--compress-mode=none", *PTX),
        ("--compress-mode=speed", *PTX),
        ("-arch=sm_90",),
    ],
)
def test_other_ways_to_build(flags: tuple[str, ...], tmp_path: Path) -> None:
    done = ran("run", by_nvcc("vector_add", tmp_path, *flags))
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stdout + done.stderr


@pytest.mark.slow
@needs_nvcc
def test_machine_code_is_refused_in_a_sentence(tmp_path: Path) -> None:
    flags = ("-gencode", "arch=compute_100a,code=sm_100a")
    done = ran("run", by_nvcc("vector_add", tmp_path, *flags))
    assert done.stdout == "cudaGetLastError(): no binary for gpu\n"
    assert "holds a cubin for sm_100; machine code cannot be run here" in done.stderr


@pytest.mark.slow
@needs_nvcc
def test_a_stripped_program_of_nvcc_is_told_what_to_do(tmp_path: Path) -> None:
    program = by_nvcc("vector_add", tmp_path, *PTX)
    subprocess.run(["strip", program], check=True)
    done = ran("run", program)
    assert done.returncode == 1
    assert "Link with `nvcc -cudart shared`" in done.stderr


@pytest.mark.skipif(MOJO is None, reason="mojo is not on the path")
def test_mojo(tmp_path: Path) -> None:
    program = tmp_path / "scale"
    line = [str(MOJO), "build", "--target-accelerator", "sm_100a", "-o", str(program)]
    subprocess.run([*line, str(PROGRAMS / "scale.mojo")], check=True)
    done = ran("check", program)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stdout + done.stderr


@needs_nvcc
@pytest.mark.slow
def test_a_launch_is_configured_by_its_own_thread(tmp_path: Path) -> None:
    done = ran("run", by_nvcc("launch_threads", tmp_path, *PTX))
    assert done.stdout == "right\n", done.stdout + done.stderr


@needs_nvcc
@pytest.mark.slow
def test_findings_that_find_no_room_do_not_stop_a_launch(tmp_path: Path) -> None:
    done = ran("check", "--print-limit", 1, by_nvcc("two_findings", tmp_path, *PTX))
    assert done.stdout == "right\n", done.stdout + done.stderr
    assert "1 launches, 0 clean, 1 findings" in done.stderr
