/* Functions of nvJitLink (nvJitLink API), and the names that its header gives them.  Without nvJitLinkVersion: callers
 * that ask for it (Numba, cuda.core) give a library that has it LTO-IR, and link PTX by the driver otherwise. */
/* clang-format off */
ENTRY(nvJitLinkAddData) ENTRY(nvJitLinkAddFile) ENTRY(nvJitLinkComplete) ENTRY(nvJitLinkCreate) ENTRY(nvJitLinkDestroy)
ENTRY(nvJitLinkGetErrorLog) ENTRY(nvJitLinkGetErrorLogSize) ENTRY(nvJitLinkGetInfoLog) ENTRY(nvJitLinkGetInfoLogSize)
ENTRY(nvJitLinkGetLinkedCubin) ENTRY(nvJitLinkGetLinkedCubinSize) ENTRY(nvJitLinkGetLinkedPtx)
ENTRY(nvJitLinkGetLinkedPtxSize)
ENTRY(__nvJitLinkAddData_13_0) ENTRY(__nvJitLinkAddFile_13_0) ENTRY(__nvJitLinkComplete_13_0)
ENTRY(__nvJitLinkCreate_13_0) ENTRY(__nvJitLinkDestroy_13_0) ENTRY(__nvJitLinkGetErrorLogSize_13_0)
ENTRY(__nvJitLinkGetErrorLog_13_0) ENTRY(__nvJitLinkGetInfoLogSize_13_0) ENTRY(__nvJitLinkGetInfoLog_13_0)
ENTRY(__nvJitLinkGetLinkedCubinSize_13_0) ENTRY(__nvJitLinkGetLinkedCubin_13_0)
ENTRY(__nvJitLinkGetLinkedPtxSize_13_0) ENTRY(__nvJitLinkGetLinkedPtx_13_0)
    /* clang-format on */
