/* The L1 of an SM: which pieces of global memory it has.
 *
 * Source: benchmarks/timing/h200_kept.json. An H200 fetches a line's four pieces one by one, who asks for a piece that
 * is under way gets it when the first one does, and a store drops the whole line. Of a ring of 54, 60, 64 and 80 KB
 * where 54 are free a load takes it 42, 97, 131 and 228 cycles, and the machine 44, 109, 138 and 209: of two lines that
 * are drawn the one used longer ago gives up its place. CTAs of an SM share lines that several of the launch touch;
 * others each has for itself, since the CTA of the trace stands for all. */
#include "clock/state.h"

static KeptLine *line_of(const Clock *c, const WarpState *w, u32 piece) {
  u32 line = piece / CLOCK_PIECES, copy = line < c->in->n_common ? 0 : w->copy;
  return &c->kept[((size_t)copy * c->in->ranks + w->sm) * c->in->n_lines + line];
}

static void give_up(Clock *c, Sm *sm, KeptLine *line) {
  u32 last = sm->kept[--sm->n_kept];
  sm->kept[line->place] = last;
  c->kept[last].place = line->place;
  line->here = false;
}

static KeptLine *drawn_line(Clock *c, Sm *sm) {
  sm->drawn = sm->drawn * 1664525u + 1013904223u;
  return &c->kept[sm->kept[(u64)sm->drawn * sm->n_kept >> 32]];
}

/* A place for a line: where there is none left, that of the one of two drawn lines that was used longer ago. */
static void take_in(Clock *c, Sm *sm, KeptLine *line) {
  line->used = ++sm->uses;
  if (line->here)
    return;
  if (sm->n_kept >= (u32)c->chip->l1_lines) {
    KeptLine *one = drawn_line(c, sm), *other = drawn_line(c, sm);
    give_up(c, sm, one->used < other->used ? one : other);
  }
  for (u32 k = 0; k < CLOCK_PIECES; k++)
    line->ready[k] = CLOCK_NEVER;
  line->place = sm->n_kept;
  line->here = true;
  sm->kept[sm->n_kept++] = (u32)(line - c->kept);
}

/* What the L1 has of an access; what it lacks it asks for, and `fill_l1` says when that comes. */
L1Answer ask_l1(Clock *c, const Execution *x) {
  L1Answer found = {.missing = x->event->pieces};
  if (!c->kept || x->op->l1 != CLOCK_L1_LOAD)
    return found;
  Sm *sm = &c->sms[x->w->sm];
  u32 last = NONE32;
  for (u32 k = 0; k < x->event->pieces; k++) {
    u32 piece = c->in->pieces[x->event->first_piece + k], line = piece / CLOCK_PIECES;
    KeptLine *kept = line_of(c, x->w, piece);
    found.lines += line != last;
    last = line;
    take_in(c, sm, kept);
    double ready = kept->ready[piece % CLOCK_PIECES];
    if (ready == CLOCK_NEVER)
      continue;
    found.missing--;
    found.there = fmax(found.there, ready);
  }
  c->totals->l1_asked += x->event->pieces;
  c->totals->l1_answered += x->event->pieces - found.missing;
  return found;
}

void fill_l1(Clock *c, const Execution *x, double at) {
  if (!c->kept || x->op->l1 != CLOCK_L1_LOAD)
    return;
  for (u32 k = 0; k < x->event->pieces; k++) {
    u32 piece = c->in->pieces[x->event->first_piece + k];
    KeptLine *kept = line_of(c, x->w, piece);
    if (kept->here && kept->ready[piece % CLOCK_PIECES] == CLOCK_NEVER)
      kept->ready[piece % CLOCK_PIECES] = at;
  }
}

/* A store or an atomic operation drops the lines that it writes. */
void drop_lines(Clock *c, const Execution *x) {
  if (!c->kept || x->op->l1 != CLOCK_L1_DROP)
    return;
  for (u32 k = 0; k < x->event->pieces; k++) {
    KeptLine *kept = line_of(c, x->w, c->in->pieces[x->event->first_piece + k]);
    if (kept->here)
      give_up(c, &c->sms[x->w->sm], kept);
  }
}

/* Behind an acquire from the GPU nothing is left, of any CTA. */
void forget_lines(Clock *c, Sm *sm) {
  while (c->kept && sm->n_kept)
    give_up(c, sm, &c->kept[sm->kept[0]]);
}

/* A place's next cluster has lines of its own, but for those that all share. */
void leave_lines(Clock *c, u32 copy) {
  for (u32 rank = 0; c->kept && rank < c->in->ranks; rank++)
    for (u32 k = c->in->n_common; k < c->in->n_lines; k++) {
      KeptLine *line = &c->kept[((size_t)copy * c->in->ranks + rank) * c->in->n_lines + k];
      if (line->here)
        give_up(c, &c->sms[rank], line);
    }
}
