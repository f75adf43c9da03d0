"""Which unit an opcode occupies.

Sources: the register-dependency tables of Mesa's NAK (src/nouveau/compiler/latencies), whose rows
name opcodes by unit, and published measurements of H100 and B200 (docs/sources.md).
"""

from __future__ import annotations

from ..records import Pipe

_NAMES: dict[Pipe, str] = {
    Pipe.ALU: """IADD IADD3 IADD32I IABS IMNMX IMNMX3 VIMNMX VIMNMX3 VIADD VIADDMNMX LOP3 SHF SHL
        SHR LEA PRMT SGXT BMSK MOV MOV32I SEL FSEL FMNMX FMNMX3 FSETP FSET FCHK ISETP PLOP3 PSETP
        P2R R2P CSEL F2FP F2IP I2IP I2FP VHMNMX HMNMX2 VABSDIFF VABSDIFF4 CS2R""",
    Pipe.FMA_LITE: """FFMA FADD FMUL FFMA32I FADD32I FMUL32I FSWZADD FHFMA FHADD
        FHMUL""",
    Pipe.FMA_HEAVY: "IMAD IMUL IDP IDP4A IDP2A",
    Pipe.FMA_PACKED: "FFMA2 FADD2 FMUL2 HFMA2 HADD2 HMUL2 HSET2 HSETP2 HADD2_32I HFMA2_32I",
    Pipe.FP64: "DFMA DADD DMUL DSETP DMNMX",
    Pipe.MUFU: "MUFU F2F F2I I2F FRND POPC FLO BREV",
    Pipe.LSU: """LD LDG LDS LDL LDSM LDGSTS LDGDEPBAR LDGMC ST STG STS STL STSM STAS ATOM ATOMG
        ATOMS RED REDG REDAS SHFL LDC CCTL CCTLL CCTLT QSPC MATCH MOVM REDUX CREDUX LEPC""",
    Pipe.TENSOR: """HMMA IMMA DMMA QMMA OMMA BMMA HGMMA IGMMA QGMMA BGMMA UTCHMMA UTCIMMA UTCQMMA
        UTCOMMA UTCBAR UTCCP UTCSHIFT UTCATOMSWS""",
    Pipe.TMEM: "LDTM STTM LDT STT",
    Pipe.TMA: """UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH UBLKCP UBLKPF UBLKRED
        UGETNEXTWORKID""",
    Pipe.BARRIER: """SYNCS BAR UCGABAR_ARV UCGABAR_WAIT ARRIVES B2R ERRBAR CGAERRBAR MEMBAR
        FENCE""",
    Pipe.CONTROL: """NOP BRA BRX BRXU JMP JMX JMXU CALL RET EXIT BSSY BSYNC BREAK BMOV WARPSYNC
        YIELD NANOSLEEP KILL BPT RTT RPCMOV DEPBAR WARPGROUP WARPGROUPSET USETMAXREG ACQBULK PREEXIT
        ENDCOLLECTIVE ELECT VOTE VOTEU S2R S2UR R2UR SETCTAID SETLMEMBASE GETLMEMBASE UVIRTCOUNT
        PMTRIG""",
}
PIPE_OF: dict[str, Pipe] = {name: pipe for pipe, names in _NAMES.items() for name in names.split()}
"""Opcode -> unit."""


def pipe_of(opcode: str) -> Pipe:
    """Return the unit of an opcode; those of the uniform datapath begin with U.

    Raises:
        ValueError: the opcode is not known here.
    """
    if opcode in PIPE_OF:
        return PIPE_OF[opcode]
    if opcode.startswith("U") or opcode == "LDCU":
        return Pipe.UNIFORM
    raise ValueError(f"opcode {opcode}: its unit is not known here")
