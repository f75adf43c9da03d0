"""Run every case of the K/V tile copy on a Hopper GPU and record the images.

python -m testing.hardware.kv_copy_run DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

from testing.hardware.kv_copy import CASES, HOPPER
from testing.hardware.kv_copy_device import launcher_of, run
from testing.hardware.kv_copy_record import read_kernel, write_images

if __name__ == "__main__":
    launcher = launcher_of()
    images = {c.name: run(c, read_kernel(c.spec(HOPPER)), launcher) for c in CASES}
    print(write_images(images, Path(sys.argv[1])))
