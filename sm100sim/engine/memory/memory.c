/* Loads and stores (PTX ISA, "ld", "ld.global.nc", "ldu", "st") and address-space conversion.
 *
 * s[0] is the address, imm its offset.  A vector has one register per element: d of a load, s[1..] of a store. */
#include "memory/address.h"
#include "memory/timing.h"

static Access access_of(const Ins *i, u32 elements, Acc acc) {
  const MemoryForm *f = &i->form.memory;
  u32 len = f->bytes * elements;
  return (Access){i->s[0], f->address_bits, i->imm, (Space)f->space, len, len, acc};
}

#define LOAD(FROM, TO)                                                               \
  do {                                                                               \
    for (u32 v = 0; v < n; v++) {                                                    \
      TO *d = (TO *)(c->r + i->d[v]);                                                \
      LANE_LOOP(FROM x; memcpy(&x, at.p[l] + v * sizeof x, sizeof x); d[l] = (TO)x;) \
    }                                                                                \
  } while (0)
#define STORE(FROM, TO)                                   \
  do {                                                    \
    for (u32 v = 0; v < n; v++) {                         \
      const FROM *s = (const FROM *)(c->r + i->s[1 + v]); \
      TO x;                                               \
      if (c->mask == NONE32)                              \
        for (u32 l = 0; l < LANES; l++) {                 \
          x = (TO)s[l];                                   \
          memcpy(at.p[l] + v * sizeof x, &x, sizeof x);   \
        }                                                 \
      else                                                \
        FOR_LANES (c->mask, l) {                          \
          x = (TO)s[l];                                   \
          memcpy(at.p[l] + v * sizeof x, &x, sizeof x);   \
        }                                                 \
    }                                                     \
  } while (0)

/* One number for bytes of an element, sign extension, bits of a register. */
#define CASE(bytes, sign, bits) ((bytes) | (sign) << 5 | (u32)((bits) == 64) << 6)

/* A signed element in a wider register is sign-extended (PTX ISA, "Operand Size Exceeding Instruction-Type Size"). */
static void load_narrow(Ctx *c, const Ins *i, const Places *where, u32 n) {
  Places at = *where;
  u32 bits = i->form.memory.register_bits;
  bool sign = i->form.memory.is_signed;
  switch (CASE(i->form.memory.bytes, sign, bits)) {
    case CASE(1, 0, 32):
      LOAD(u8, u32);
      break;
    case CASE(2, 0, 32):
      LOAD(u16, u32);
      break;
    case CASE(1, 1, 32):
      LOAD(i8, i32);
      break;
    case CASE(2, 1, 32):
      LOAD(i16, i32);
      break;
    case CASE(1, 0, 64):
      LOAD(u8, u64);
      break;
    case CASE(2, 0, 64):
      LOAD(u16, u64);
      break;
    case CASE(4, 0, 64):
      LOAD(u32, u64);
      break;
    case CASE(1, 1, 64):
      LOAD(i8, i64);
      break;
    case CASE(2, 1, 64):
      LOAD(i16, i64);
      break;
    default:
      LOAD(i32, i64);
      break;
  }
  if (sign && bits < 32) /* narrow registers are kept zero-extended */
    for (u32 v = 0; v < n; v++)
      FOR_LANES (c->mask, l)
        R32(c, i->d[v])[l] &= (1u << bits) - 1;
}

static void load_b128(Ctx *c, const Ins *i, const Places *at, u32 n) {
  for (u32 v = 0; v < n; v++)
    FOR_LANES (c->mask, l) {
      memcpy(&R128LO(c, i->d[v])[l], at->p[l] + 16 * v, 8);
      memcpy(&R128HI(c, i->d[v])[l], at->p[l] + 16 * v + 8, 8);
    }
}

static void store_b128(Ctx *c, const Ins *i, const Places *at, u32 n) {
  for (u32 v = 0; v < n; v++)
    FOR_LANES (c->mask, l) {
      memcpy(at->p[l] + 16 * v, &R128LO(c, i->s[1 + v])[l], 8);
      memcpy(at->p[l] + 16 * v + 8, &R128HI(c, i->s[1 + v])[l], 8);
    }
}

/* Four 32-bit registers of all lanes against 16 bytes per lane: lanes in blocks of four, transposed. */
typedef u32 quad __attribute__((vector_size(16)));
#define ZIP_LO(a, b) __builtin_shuffle(a, b, (quad){0, 4, 1, 5})
#define ZIP_HI(a, b) __builtin_shuffle(a, b, (quad){2, 6, 3, 7})

static inline void transpose_4x4(quad q[4]) {
  quad a = ZIP_LO(q[0], q[2]), b = ZIP_HI(q[0], q[2]), d = ZIP_LO(q[1], q[3]), e = ZIP_HI(q[1], q[3]);
  q[0] = ZIP_LO(a, d);
  q[1] = ZIP_HI(a, d);
  q[2] = ZIP_LO(b, e);
  q[3] = ZIP_HI(b, e);
}

static void load_v4(Ctx *c, const Ins *i, const Places *at) {
  for (u32 l = 0; l < LANES; l += 4) {
    quad q[4];
    for (u32 k = 0; k < 4; k++)
      memcpy(&q[k], at->p[l + k], 16);
    transpose_4x4(q);
    for (u32 v = 0; v < 4; v++)
      memcpy(R32(c, i->d[v]) + l, &q[v], 16);
  }
}

static void store_v4(Ctx *c, const Ins *i, const Places *at) {
  for (u32 l = 0; l < LANES; l += 4) {
    quad q[4];
    for (u32 v = 0; v < 4; v++)
      memcpy(&q[v], R32(c, i->s[1 + v]) + l, 16);
    transpose_4x4(q);
    for (u32 k = 0; k < 4; k++)
      memcpy(at->p[l + k], &q[k], 16);
  }
}

/* Whether memory holds the lanes of one register as the register does, in which they have 32 or 64 bits. */
static bool is_block(const Ins *i, const Places *at, u32 elements) {
  const MemoryForm *f = &i->form.memory;
  return at->row && elements == 1 && f->bytes * 8 == f->register_bits && (f->bytes == 4 || f->bytes == 8);
}

static bool in_another_cta(const Ctx *c, const Places *at) {
  if (at->own || at->outside)
    return false;
  for (u32 l = 0; l < LANES; l++)
    if (c->mask >> l & 1 && at->owner[l] && at->owner[l] != c->cta)
      return true;
  return false;
}

static Step op_ld(Ctx *c, const Ins *i) {
  u32 n = i->nd;
  Places at;
  Access a = access_of(i, n, ACC_READ);
  Step step = resolve(c, &a, &at);
  if (step != STEP_NEXT)
    return step;
  observe(c, &at, ACC_READ, i->form.memory.order);
  if (i->form.memory.order)
    note_poll(c->cl);
  if (in_another_cta(c, &at))
    c->sp->t += T_REMOTE;
  u32 bytes = i->form.memory.bytes, bits = i->form.memory.register_bits;
  if (is_block(i, &at, n))
    memcpy(c->r + i->d[0], at.p[0], LANES * bytes);
  else if (bytes == 4 && bits == 32 && n == 4 && c->mask == NONE32)
    load_v4(c, i, &at);
  else if (bytes == 4 && bits == 32)
    LOAD(u32, u32);
  else if (bytes == 8)
    LOAD(u64, u64);
  else if (bytes == 16)
    load_b128(c, i, &at, n);
  else
    load_narrow(c, i, &at, n);
  return STEP_NEXT;
}

static Step op_st(Ctx *c, const Ins *i) {
  u32 n = i->ns - 1u;
  Places at;
  Access a = access_of(i, n, ACC_WRITE);
  Step step = resolve(c, &a, &at);
  if (step != STEP_NEXT)
    return step;
  u32 bytes = i->form.memory.bytes;
  switch (is_block(i, &at, n) ? 0 : CASE(bytes, 0, i->form.memory.register_bits)) {
    case 0:
      memcpy(at.p[0], c->r + i->s[1], LANES * bytes);
      break;
    case CASE(1, 0, 32):
      STORE(u32, u8);
      break;
    case CASE(2, 0, 32):
      STORE(u32, u16);
      break;
    case CASE(4, 0, 32):
      if (n == 4 && c->mask == NONE32)
        store_v4(c, i, &at);
      else
        STORE(u32, u32);
      break;
    case CASE(1, 0, 64):
      STORE(u64, u8);
      break;
    case CASE(2, 0, 64):
      STORE(u64, u16);
      break;
    case CASE(4, 0, 64):
      STORE(u64, u32);
      break;
    case CASE(8, 0, 64):
      STORE(u64, u64);
      break;
    default:
      store_b128(c, i, &at, n);
  }
  observe(c, &at, ACC_WRITE, i->form.memory.order);
  note_progress(c->cl);
  return STEP_NEXT;
}

#define BULK_STORE_MAX (1u << 24)

/* st.bulk: s[1] bytes of zeros; a multiple of 8, at most 16 MiB (PTX ISA, "st.bulk"). */
static Step clear_of_lane(Ctx *c, const Ins *i, u32 lane) {
  const MemoryForm *f = &i->form.memory;
  u64 size = f->register_bits == 64 ? R64(c, i->s[1])[lane] : R32(c, i->s[1])[lane];
  if (size % 8 || size > BULK_STORE_MAX)
    return fault(c, "bulk-size", "%llu bytes; st.bulk takes multiples of 8 up to %u", (unsigned long long)size,
                 BULK_STORE_MAX);
  if (!size)
    return STEP_NEXT;
  Access a = {i->s[0], f->address_bits, i->imm, (Space)f->space, (u32)size, 8, ACC_WRITE};
  Places at = {.len = (u32)size};
  Step step = resolve_lane(c, &a, lane, &at.p[lane], &at.owner[lane]);
  if (step != STEP_NEXT)
    return step;
  if (at.owner[lane] != c->cta)
    return fault(c, "shared-address", "st.bulk writes the shared memory of its own CTA only");
  memset(at.p[lane], 0, size);
  observe(c, &at, ACC_WRITE, 0);
  note_progress(c->cl);
  return STEP_NEXT;
}

static Step op_st_bulk(Ctx *c, const Ins *i) {
  return lane_by_lane(c, i, clear_of_lane);
}

/* cvta.space: put the window's number above the 32-bit address.  imm: offset.
 * A shared address of more than 32 bits stays visible as such. */
static Step op_cvta(Ctx *c, const Ins *i) {
  u64 window = (u64)i->form.window.window << 32;
  FOR_LANES (c->mask, l)
    R64(c, i->d[0])[l] = (R64(c, i->s[0])[l] + (u64)i->imm) | window;
  return STEP_NEXT;
}

/* cvta.to.space: an address of another window keeps its high bits, so that its use faults. */
static Step op_cvta_to(Ctx *c, const Ins *i) {
  u64 window = i->form.window.window;
  FOR_LANES (c->mask, l) {
    u64 v = R64(c, i->s[0])[l] + (u64)i->imm;
    R64(c, i->d[0])[l] = window && v >> 32 == window ? (u32)v : v;
  }
  return STEP_NEXT;
}

/* isspacep; `own`: only the executing CTA. */
static Step op_isspacep(Ctx *c, const Ins *i) {
  u32 bits = 0, window = i->form.window.window;
  FOR_LANES (c->mask, l) {
    u64 v = R64(c, i->s[0])[l];
    u32 high = (u32)(v >> 32);
    bool known = high == WINDOW_SHARED || high == WINDOW_PARAM || high == WINDOW_LOCAL;
    bool yes = window ? high == window : !known;
    if (i->form.window.own && window_rank((u32)v) != c->cta->rank)
      yes = false;
    bits |= (u32)yes << l;
  }
  set_pred(c, i->d[0], bits);
  return STEP_NEXT;
}

/* prefetch, discard, applypriority, bulk prefetches to L2, griddepcontrol: no effect on values. */
static Step op_hint(Ctx *c, const Ins *i) {
  (void)c;
  (void)i;
  return STEP_NEXT;
}

/* createpolicy: the policy is opaque; the value only has to be the same for the same request. imm: value. */
static Step op_policy(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l)
    R64(c, i->d[0])[l] = (u64)i->imm;
  return STEP_NEXT;
}

OP_TABLE(memory) = {{"LD", op_ld},
                    {"ST", op_st},
                    {"CVTA", op_cvta},
                    {"CVTA_TO", op_cvta_to},
                    {"ISSPACEP", op_isspacep},
                    {"HINT", op_hint},
                    {"POLICY", op_policy},
                    {"ST_BULK", op_st_bulk},
                    {NULL, NULL}};
