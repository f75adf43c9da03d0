/* Decoding of the shared-memory matrix descriptor and of the instruction descriptor
 * (PTX ISA, "Shared memory descriptor", "Instruction descriptor", "Matrix and Data Movement Shape"). */
#include "mma/descriptor.h"

#define RULE(code, text)                 \
  do {                                   \
    static const Rule r_ = {code, text}; \
    return &r_;                          \
  } while (0)

static inline u32 bits_of(u64 x, u32 low, u32 n) {
  return (u32)(x >> low) & ((1u << n) - 1);
}

const Rule *smem_desc_decode(u64 x, SmemDesc *d) {
  *d = (SmemDesc){bits_of(x, 0, 14) << 4, bits_of(x, 16, 14) << 4, bits_of(x, 32, 14) << 4, bits_of(x, 61, 3), 0};
  if (bits_of(x, 14, 2) || bits_of(x, 30, 2) || bits_of(x, 53, 8))
    RULE("smem-desc-reserved",
         "reserved bits (14-15, 30-31, 53-60) must be 0; an address step may have carried into them");
  if (bits_of(x, 46, 3) != 1)
    RULE("smem-desc-constant", "bits 46-48 must be 0b001");
  if (bits_of(x, 49, 3) && d->swizzle != SWZ_NONE) /* without a swizzle the ISA gives it no meaning; Triton sets it */
    RULE("smem-desc-base-offset", "a base offset other than 0 is not modelled");
  if (bits_of(x, 52, 1))
    RULE("smem-desc-lbo-mode", "absolute leading-dimension mode (bit 52) does not exist on sm_100a");
  if (d->swizzle == 3 || d->swizzle == 5 || d->swizzle == 7)
    RULE("smem-desc-swizzle", "swizzle codes 3, 5 and 7 do not exist");
  return NULL;
}

/* PTX ISA, "Asynchronous Warpgroup Level Matrix ...: Matrix Descriptor Format": the swizzle has two bits, whose codes
 * are half of sm_100's. */
const Rule *smem_desc_decode_sm90(u64 x, SmemDesc *d) {
  *d = (SmemDesc){bits_of(x, 0, 14) << 4, bits_of(x, 16, 14) << 4, bits_of(x, 32, 14) << 4, bits_of(x, 62, 2) << 1,
                  bits_of(x, 49, 3)};
  if (bits_of(x, 14, 2) || bits_of(x, 30, 2) || bits_of(x, 46, 3) || bits_of(x, 52, 10))
    RULE("smem-desc-reserved",
         "bits 14-15, 30-31, 46-48 and 52-61 have no meaning on sm_90a and must be 0; an address step may have carried "
         "into them");
  return NULL;
}

u32 smem_unit_address(u64 descriptor, bool mn_major, u32 mn, u32 k) {
  SmemDesc d;
  if (smem_desc_decode(descriptor, &d))
    return NONE32;
  return operand_address(&d, mn_major ? mn_major_unit(&d, mn, k) : k_major_unit(&d, mn, k));
}

const Rule *operand_layout_rule(ElemType t, bool mn_major, u32 swizzle) {
  if (!mn_major)
    return NULL;
  u32 bits = elem_bits(t);
  if (bits == 32 && swizzle != SWZ_128B_ATOM32)
    RULE("operand-swizzle", "MN-major 32-bit elements need the 128B swizzle with 32B atoms");
  if (bits != 32 && swizzle == SWZ_128B_ATOM32)
    RULE("operand-swizzle", "the 128B swizzle with 32B atoms needs 32-bit elements when MN-major");
  return NULL;
}

static bool decode_type(MmaKind kind, u32 code, ElemType *t) {
  static const i8 f8[8] = {T_E4M3, T_E5M2, -1, T_E2M3, T_E3M2, T_E2M1, -1, -1};
  switch (kind) {
    case KIND_F16:
      *t = code ? T_BF16 : T_F16;
      return code <= 1;
    case KIND_TF32:
      *t = T_TF32;
      return code == 2;
    case KIND_I8:
      *t = code ? T_S8 : T_U8;
      return code <= 1;
    case KIND_MXF4:
    case KIND_MXF4NVF4:
      *t = T_E2M1_PAIR;
      return code == 1;
    default:
      *t = (ElemType)f8[code];
      return f8[code] >= 0;
  }
}

static const Rule *d_type_rule(const InstrDesc *q, u32 code) {
  switch (q->kind) {
    case KIND_TF32:
      if (code != D_F32)
        RULE("instr-desc-type", "kind::tf32 accumulates in f32 only");
      return NULL;
    case KIND_I8:
      if (code != D_S32)
        RULE("instr-desc-type", "kind::i8 accumulates in s32 only");
      return NULL;
    default:
      break;
  }
  if (code > D_F32)
    RULE("instr-desc-type", "D must be f16 or f32");
  if (q->kind == KIND_F16 && q->a != q->b)
    RULE("instr-desc-type", "kind::f16 does not mix f16 and bf16 operands");
  if (code == D_F16 && q->a == T_BF16)
    RULE("instr-desc-type", "bf16 operands need an f32 D");
  return NULL;
}

static const Rule *n_rule(u32 n, u32 least, u32 step) {
  if (n >= least && n <= 256 && n % step == 0)
    return NULL;
  switch (step) {
    case 8:
      RULE("instr-desc-shape", "N must be a multiple of 8 in 8..256");
    case 16:
      RULE("instr-desc-shape", "N must be a multiple of 16 in 16..256");
    default:
      RULE("instr-desc-shape", "N must be a multiple of 32 in 32..256");
  }
}

static const Rule *shape_rule(const InstrDesc *q) {
  if (kind_block_scaled(q->kind)) {
    if (q->group == 1 && q->m != 128)
      RULE("instr-desc-shape", "block-scaled kinds need M = 128 with cta_group::1");
    if (q->group == 2 && q->m != 128 && q->m != 256)
      RULE("instr-desc-shape", "block-scaled kinds need M = 128 or 256 with cta_group::2");
    return n_rule(q->n, 8 * q->group, 8 * q->group);
  }
  if (q->stationary) {
    if (q->m != 32 && q->m != 64 && q->m != 128)
      RULE("instr-desc-shape", ".ws needs M = 32, 64 or 128");
    if (q->n != 64 && q->n != 128 && q->n != 256)
      RULE("instr-desc-shape", ".ws needs N = 64, 128 or 256");
    return NULL;
  }
  if (q->group == 1 && q->m != 64 && q->m != 128)
    RULE("instr-desc-shape", "cta_group::1 needs M = 64 or 128");
  if (q->group == 2 && q->m != 128 && q->m != 256)
    RULE("instr-desc-shape", "cta_group::2 needs M = 128 or 256");
  if (q->kind == KIND_I8) {
    if (q->group == 2)
      return n_rule(q->n, 32, 32);
    if (q->n == 8 || q->n == 24)
      return NULL;
    return n_rule(q->n, 16, 16);
  }
  u32 step = (q->mn_b && elem_bits(q->b) == 8 ? 16 : 8) * q->group;
  return n_rule(q->n, step, step);
}

/* Kinds f16, tf32, f8f6f4 and i8. */
static const Rule *decode_plain(u32 x, InstrDesc *q) {
  if (bits_of(x, 6, 1) || bits_of(x, 23, 1) || bits_of(x, 29, 1))
    RULE("instr-desc-reserved", "bits 6, 23 and 29 must be 0");
  if (bits_of(x, 0, 2))
    RULE("sparse-mismatch", "the sparsity selector is set in a dense MMA");
  if (bits_of(x, 30, 2))
    RULE("instr-desc-max-shift", "a maximum shift belongs to the zero-column mask of .ws, and is not modelled");
  if (bits_of(x, 3, 1) && q->kind != KIND_I8)
    RULE("instr-desc-saturate", "saturation belongs to kind::i8 only");
  if (q->kind == KIND_I8 && (q->neg_a || q->neg_b))
    RULE("instr-desc-negate", "kind::i8 cannot negate its operands");
  const Rule *r = d_type_rule(q, bits_of(x, 4, 2));
  if (r)
    return r;
  q->d = (DType)bits_of(x, 4, 2);
  q->saturate = bits_of(x, 3, 1);
  q->m = bits_of(x, 24, 5) << 4;
  return NULL;
}

/* Kinds mxf8f6f4, mxf4 and mxf4nvf4. */
static const Rule *decode_scaled(u32 x, InstrDesc *q) {
  if (bits_of(x, 0, 2) || bits_of(x, 3, 1) || bits_of(x, 6, 1) || bits_of(x, 24, 3))
    RULE("instr-desc-reserved", "bits 0-1, 3, 6 and 24-26 must be 0 in block-scaled kinds");
  if (bits_of(x, 31, 1))
    RULE("instr-desc-reserved", "bit 31 (K = 96) does not exist on sm_100a");
  q->d = D_F32;
  q->m = bits_of(x, 27, 2) << 7;
  q->ue8m0 = bits_of(x, 23, 1);
  q->sfb_id = bits_of(x, 4, 2);
  q->sfa_id = bits_of(x, 29, 2);
  if (q->kind != KIND_MXF4NVF4 && !q->ue8m0)
    RULE("instr-desc-scale-type", "kinds mxf8f6f4 and mxf4 need ue8m0 scales");
  if (q->kind == KIND_MXF8F6F4)
    return NULL;
  if ((q->sfa_id | q->sfb_id) & 1)
    RULE("instr-desc-scale-id", "scale factor ids of mxf4 kinds are 0 or 2");
  return NULL;
}

const Rule *instr_desc_decode(u32 x, u32 kind, u32 group, bool stationary, InstrDesc *q) {
  *q = (InstrDesc){.kind = kind,
                   .group = group,
                   .stationary = stationary,
                   .neg_a = bits_of(x, 13, 1),
                   .neg_b = bits_of(x, 14, 1),
                   .mn_a = bits_of(x, 15, 1),
                   .mn_b = bits_of(x, 16, 1),
                   .n = bits_of(x, 17, 6) << 3};
  bool four = kind == KIND_MXF4 || kind == KIND_MXF4NVF4;
  if (bits_of(x, 2, 1))
    RULE("sparse-mismatch", "the sparse bit is set in an instruction without .sp");
  if (!decode_type(kind, bits_of(x, 7, 3), &q->a))
    RULE("instr-desc-type", "this kind has no such A type");
  if (!decode_type(kind, bits_of(x, 10, 3), &q->b))
    RULE("instr-desc-type", "this kind has no such B type");
  if ((q->mn_a && (four || elem_narrow(q->a))) || (q->mn_b && (four || elem_narrow(q->b))))
    RULE("operand-major", "4 and 6-bit elements must be K-major");
  q->k = four ? 64 : 256 / elem_bits(q->a);
  const Rule *r = kind_block_scaled(kind) ? decode_scaled(x, q) : decode_plain(x, q);
  return r ? r : shape_rule(q);
}
