/* call and ret (PTX ISA, "call", "ret").
 *
 * Each function has registers of its own in the warp's block, so a call saves nothing, except where
 * the function may be running already.  The lanes that call a function together meet when all have
 * returned or left; their join remembers where they go on. */
#include "warp/splits.h"
#include "machine/alloc.h"

static u8 *frame_bytes(const Ctx *c, u32 lane, u32 offset) {
  size_t n = c->m->prog.local_bytes;
  return c->w->local + lane * n + R32(c, c->m->prog.frame)[lane] + offset;
}

/* Arguments and results between the frames of caller and callee; both lie inside local memory, see enter(). */
static Step op_frame_copy(Ctx *c, const Ins *i) {
  const FrameCopyForm *f = &i->form.frame_copy;
  u32 most = (f->to > f->source ? f->to : f->source) + f->bytes;
  FOR_LANES (c->mask, l) {
    u64 end = (u64)R32(c, i->s[0])[l] + most;
    if (end > c->m->prog.local_bytes)
      return fault(c, "stack-overflow", "an argument ends at byte %llu of the thread's %u bytes of local memory",
                   (unsigned long long)end, c->m->prog.local_bytes);
    memcpy(frame_bytes(c, l, f->to), frame_bytes(c, l, f->source), f->bytes);
  }
  return STEP_NEXT;
}

/* ---- registers of functions that call themselves -------------------------------------------------- */
static u32 slot_bytes(const SlotWidth *s) {
  return s->bits == 1 ? SLOT_GRAIN : LANES * (s->bits < 32 ? 32 : s->bits) / 8;
}

/* Every register of the function, and after it its validity. */
static u8 *saved_registers(Ctx *c, const RawFunction *f) {
  const SlotWidth *slots = c->m->prog.slots + f->first_slot;
  size_t bytes = 0;
  for (u32 k = 0; k < f->n_slots; k++)
    bytes += slot_bytes(&slots[k]) + sizeof(u32);
  u8 *saved = mem_new(c->m, bytes + 1, 1), *to = saved;
  for (u32 k = 0; k < f->n_slots; k++) {
    u32 n = slot_bytes(&slots[k]);
    memcpy(to, c->r + slots[k].slot, n);
    if (c->w->valid)
      memcpy(to + n, &c->w->valid[slot_index(slots[k].slot)], sizeof(u32));
    to += n + sizeof(u32);
  }
  return saved;
}

static inline void merge(u32 *into, u32 from, u32 mask) {
  *into = (*into & ~mask) | (from & mask);
}

/* A register of the lanes in `mask`; one of 128 bits is two rows of 64 (registers.h). */
static void restore_lanes(u8 *to, const u8 *from, u32 bits, u32 mask) {
  if (bits == 1) {
    u32 word;
    memcpy(&word, from, sizeof word);
    merge((u32 *)to, word, mask);
    return;
  }
  u32 size = bits > 32 ? 8 : 4, rows = bits == 128 ? 2 : 1;
  for (u32 row = 0; row < rows; row++)
    FOR_LANES (mask, l) {
      u32 at = (row * LANES + l) * size;
      memcpy(to + at, from + at, size);
    }
}

static void restore_registers(Ctx *c, const RawFunction *f, const u8 *saved, u32 mask) {
  const SlotWidth *slots = c->m->prog.slots + f->first_slot;
  for (u32 k = 0; k < f->n_slots; k++) {
    u32 n = slot_bytes(&slots[k]), valid;
    restore_lanes(c->r + slots[k].slot, saved, slots[k].bits, mask);
    memcpy(&valid, saved + n, sizeof valid);
    if (c->w->valid)
      merge(&c->w->valid[slot_index(slots[k].slot)], valid, mask);
    saved += n + sizeof(u32);
  }
}

/* A called function has not written its registers yet; constants and special registers are there. */
static void forget_registers(Ctx *c, const RawFunction *f, u32 mask) {
  const Program *p = &c->m->prog;
  if (!c->w->valid)
    return;
  for (u32 k = 0; k < f->n_slots; k++)
    c->w->valid[slot_index(p->slots[f->first_slot + k].slot)] &= ~mask;
  for (u32 k = 0; k < p->n_specials; k++)
    c->w->valid[slot_index(p->specials[k].slot)] |= mask;
}

/* ---- call and return ------------------------------------------------------------------------------ */
/* The lanes of the split enter a function; it goes on at `back` in the join `parent`. */
static Step enter(Ctx *c, Split *sp, const Ins *i, u32 function, u32 back, i32 parent) {
  const Program *p = &c->m->prog;
  const RawFunction *f = &p->functions[function];
  u32 *frame = R32(c, p->frame), room = i->form.call.room;
  FOR_LANES (sp->mask, l)
    if ((u64)frame[l] + room + f->frame_bytes > p->local_bytes) {
      c->mask = 1u << l;
      return fault(c, "stack-overflow", "a function of %u bytes at byte %u of the thread's %u bytes of local memory",
                   f->frame_bytes, frame[l] + room, p->local_bytes);
    }
  i32 index = join_call(c, back, sp->mask, parent);
  u8 *saved = f->recursive ? saved_registers(c, f) : NULL;
  Join *join = &c->w->joins[index];
  join->room = room;
  join->function = function;
  join->saved = saved;
  forget_registers(c, f, sp->mask);
  FOR_LANES (sp->mask, l)
    frame[l] += room;
  sp->pc = f->entry;
  sp->join = index;
  return STEP_JUMP;
}

/* Number of the function that a lane calls, or NONE32. */
static u32 callee(Ctx *c, const Ins *i, u32 lane) {
  if (!i->form.call.indirect)
    return (u32)i->imm;
  u64 address = R64(c, i->s[1])[lane], number = (address & 0xFFFFFFFFu) / CODE_GRAIN - 1;
  bool known = address >> 32 == WINDOW_CODE && address % CODE_GRAIN == 0 && number < c->m->prog.n_functions &&
               c->m->prog.functions[number].entry != NONE32;
  return known ? (u32)number : NONE32;
}

/* imm: the function; of an indirect call s[1] has its address, and lanes may call different ones. */
static Step op_call(Ctx *c, const Ins *i) {
  Split *sp = c->sp;
  u32 number[LANES], left = c->mask, back = sp->pc + 1;
  FOR_LANES (left, l) {
    number[l] = callee(c, i, l);
    if (number[l] == NONE32) {
      c->mask = 1u << l;
      return fault(c, "call-target", "0x%llx is not the address of a function that the call may reach",
                   (unsigned long long)R64(c, i->s[1])[l]);
    }
  }
  sp->t += i->cost;
  u32 group = same_word(number, left);
  if (group == sp->mask)
    return enter(c, sp, i, number[first_lane(group)], back, sp->join);
  u32 rest = sp->mask & ~left;
  sp->join = join_at(c, back);
  i32 join = sp->join;
  for (; left; left &= ~group) {
    group = same_word(number, left);
    bool stays = group == left && !rest;
    if (stays)
      sp->mask = group;
    Split *other = stays ? sp : split_off(c, group, NONE32);
    Step step = enter(c, other, i, number[first_lane(group)], back, join);
    if (step != STEP_JUMP || stays)
      return step;
  }
  sp->mask = rest;
  sp->pc++;
  return STEP_JUMP;
}

static Step op_ret(Ctx *c, const Ins *i) {
  Warp *w = c->w;
  Split *sp = c->sp;
  i32 index = sp->join;
  u32 *frame = R32(c, i->s[0]);
  if (index < 0 || w->joins[index].at != NONE32)
    return fault(c, "divergence", "a return inside of a branch whose lanes meet later");
  Join *join = &w->joins[index];
  sp->t += i->cost;
  FOR_LANES (c->mask, l)
    frame[l] -= join->room;
  if (join->saved)
    restore_registers(c, &c->m->prog.functions[join->function], join->saved, c->mask);
  join->arrived |= c->mask;
  if (sp->t > join->t)
    join->t = sp->t;
  sp->mask &= ~c->mask;
  if (sp->mask)
    sp->pc++;
  else
    split_end(w, sp);
  if (join_complete(w, index))
    join_finish(w, index, sp);
  return STEP_JUMP;
}

static Step op_off_end(Ctx *c, const Ins *i) {
  (void)i;
  return fault(c, "ran-off-end", "no instruction follows");
}

OP_TABLE(calls) = {
    {"FRAME_COPY", op_frame_copy}, {"CALL", op_call}, {"RET", op_ret}, {"OFF_END", op_off_end}, {NULL, NULL}};
