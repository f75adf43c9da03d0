/* atom and red (PTX ISA, "atom", "red"): lanes in order, one element after the other.
 *
 * d: the old value of every element (atom only).  s[0]: address; then the operands, one register per
 * vector element; for cas the comparand follows. */
#include "memory/address.h"
#include "memory/reduce.h"

static u64 register_value(const Ctx *c, u32 slot, u32 bits, u32 lane) {
  return bits == 64 ? R64(c, slot)[lane] : R32(c, slot)[lane];
}

static void set_register(Ctx *c, u32 slot, u32 bits, u32 lane, u64 v) {
  if (bits == 64)
    R64(c, slot)[lane] = v;
  else
    R32(c, slot)[lane] = (u32)v;
}

/* One register's worth of memory at p: one element, or two packed 16-bit ones (each atomic by itself). *changed says
 * that the memory is another one now: an atomic that only reads is how a loop polls, and no progress. */
static u64 update(u8 *p, RedOp op, Element e, u32 packed, u64 operand, u64 compare, bool *changed) {
  u32 size = element_bytes(e);
  u64 before = 0;
  memcpy(&before, p, size * packed);
  for (u32 k = 0; k < packed; k++) {
    u64 old = 0;
    memcpy(&old, p + k * size, size);
    u64 mask = size == 8 ? ~0ull : (1ull << 8 * size) - 1;
    u64 r = reduce_element(op, e, old, operand >> 8 * size * k & mask, compare);
    memcpy(p + k * size, &r, size);
  }
  *changed |= memcmp(&before, p, size * packed) != 0;
  return before;
}

static void told(Cluster *cl, bool changed) {
  if (changed)
    note_progress(cl);
  else
    note_poll(cl);
}

static Step op_atomic(Ctx *c, const Ins *i) {
  const AtomicForm *f = &i->form.atomic;
  RedOp op = (RedOp)f->op;
  Element e = (Element)f->element;
  u32 packed = f->packed, bits = f->register_bits, n = f->elements, bytes = element_bytes(e) * packed;
  Places at;
  Access a = {i->s[0], f->address_bits, i->imm, (Space)f->space, bytes * n, bytes * n, ACC_ATOMIC};
  Step s = resolve(c, &a, &at);
  if (s != STEP_NEXT)
    return s;
  bool changed = false;
  FOR_LANES (c->mask, l) {
    bool shared = owner_at(c, &at, l);
    /* Only global f32 adds flush (PTX ISA, "atom"); f64 adds differ in their NaNs. */
    Element use = !shared ? e : e == EL_F32_FTZ ? EL_F32 : e == EL_F64 ? EL_F64_SHARED : e;
    u64 old[8], operand[8], compare = op == RED_CAS ? register_value(c, i->s[2], bits, l) : 0;
    for (u32 v = 0; v < n; v++)
      operand[v] = register_value(c, i->s[1 + v], bits, l);
    for (u32 v = 0; v < n; v++) /* cas: s[1] is the new value, s[2] the comparand */
      old[v] = update(at.p[l] + v * bytes, op, use, packed, operand[v], compare, &changed);
    for (u32 v = 0; v < i->nd; v++)
      set_register(c, i->d[v], bits, l, old[v]);
  }
  observe(c, &at, ACC_ATOMIC, f->order);
  told(c->cl, changed);
  return STEP_NEXT;
}

/* atom.{exch,cas}.b128. */
static Step op_atomic_b128(Ctx *c, const Ins *i) {
  const AtomicForm *f = &i->form.atomic;
  Access a = {i->s[0], f->address_bits, i->imm, (Space)f->space, 16, 16, ACC_ATOMIC};
  Places at;
  Step s = resolve(c, &a, &at);
  if (s != STEP_NEXT)
    return s;
  bool cas = f->op == RED_CAS, changed = false;
  FOR_LANES (c->mask, l) {
    u64 old[2], now[2] = {R128LO(c, i->s[1])[l], R128HI(c, i->s[1])[l]};
    memcpy(old, at.p[l], 16);
    bool write = !cas || (old[0] == R128LO(c, i->s[2])[l] && old[1] == R128HI(c, i->s[2])[l]);
    if (write)
      memcpy(at.p[l], now, 16);
    changed |= memcmp(at.p[l], old, 16) != 0;
    if (i->nd) {
      R128LO(c, i->d[0])[l] = old[0];
      R128HI(c, i->d[0])[l] = old[1];
    }
  }
  observe(c, &at, ACC_ATOMIC, f->order);
  told(c->cl, changed);
  return STEP_NEXT;
}

OP_TABLE(atomic) = {{"ATOMIC", op_atomic}, {"ATOMIC_B128", op_atomic_b128}, {NULL, NULL}};
