/* The L1 of an SM: which pieces of global memory it has, of the lines that were used last.
 *
 * Source: benchmarks/timing/h200_kept.json. An H200 fetches a line's four pieces one by one, who asks for a piece that
 * is under way gets it when the first one does, and a store drops the whole line. Of a ring that is a little too large
 * a chip still has some lines; here it has none. CTAs of an SM share lines that several of the launch touch; others
 * each has for itself, since the CTA of the trace stands for all. */
#include "clock/state.h"

static KeptLine *line_of(const Clock *c, const WarpState *w, u32 piece) {
  u32 line = piece / CLOCK_PIECES, copy = line < c->in->n_common ? 0 : w->copy;
  return &c->kept[((size_t)copy * c->in->ranks + w->sm) * c->in->n_lines + line];
}

static void unlink_line(Clock *c, Sm *sm, KeptLine *line) {
  *(line->newer == NONE32 ? &sm->newest : &c->kept[line->newer].older) = line->older;
  *(line->older == NONE32 ? &sm->oldest : &c->kept[line->older].newer) = line->newer;
  line->here = false;
  sm->n_kept--;
}

/* The line is the one used last; a new one has no piece yet, and takes the place of the one used longest ago. */
static void use_line(Clock *c, Sm *sm, KeptLine *line) {
  if (line->here) {
    unlink_line(c, sm, line);
  } else {
    for (u32 k = 0; k < CLOCK_PIECES; k++)
      line->ready[k] = CLOCK_NEVER;
    if (sm->n_kept >= (u32)c->chip->l1_lines)
      unlink_line(c, sm, &c->kept[sm->oldest]);
  }
  u32 own = (u32)(line - c->kept);
  line->older = sm->newest;
  line->newer = NONE32;
  *(sm->newest == NONE32 ? &sm->oldest : &c->kept[sm->newest].newer) = own;
  sm->newest = own;
  line->here = true;
  sm->n_kept++;
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
    use_line(c, sm, kept);
    double ready = kept->ready[piece % CLOCK_PIECES];
    if (ready == CLOCK_NEVER)
      continue;
    found.missing--;
    found.lines += line != last;
    found.there = fmax(found.there, ready);
    last = line;
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
      unlink_line(c, &c->sms[x->w->sm], kept);
  }
}

/* Behind an acquire from the GPU nothing is left, of any CTA. */
void forget_lines(Clock *c, Sm *sm) {
  while (c->kept && sm->n_kept)
    unlink_line(c, sm, &c->kept[sm->oldest]);
}

/* A place's next cluster has lines of its own, but for those that all share. */
void leave_lines(Clock *c, u32 copy) {
  for (u32 rank = 0; c->kept && rank < c->in->ranks; rank++)
    for (u32 k = c->in->n_common; k < c->in->n_lines; k++) {
      KeptLine *line = &c->kept[((size_t)copy * c->in->ranks + rank) * c->in->n_lines + k];
      if (line->here)
        unlink_line(c, &c->sms[rank], line);
    }
}
