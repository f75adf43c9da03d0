"""Machine code: from PTX with ptxas, read with nvdisasm, and matched to a run of its PTX."""
