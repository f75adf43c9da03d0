/* Registers of wgmma between issue and wait (PTX ISA, "wgmma.fence", "wgmma.wait_group").
 *
 * A register of D or A may be accessed only after a wait_group for the wgmma that uses it, except as D of another wgmma
 * of the same shape; and between an access and the next wgmma that uses the register comes a wgmma.fence. */
#include "check/check.h"

static WgmmaLog *log_of(const Ctx *c, u32 *w) {
  Check *check = c->m->check;
  if (!check || !check->protocol)
    return NULL;
  *w = warp_dim(check, c->cta, c->w->index);
  return &check->wgmma[*w];
}

static WgmmaUse *uses(const Ctx *c, WgmmaLog *log) {
  if (!log->of)
    log->of = mem_new(c->m, c->m->prog.reg_bytes / SLOT_GRAIN + 1, sizeof(WgmmaUse));
  return log->of;
}

static void in_flight(Ctx *c, WgmmaUse *use) {
  finding(c, use->line, "wgmma-register-in-flight",
          "warp %u of CTA %u touches a register that the wgmma at PTX line %u %s; missing: a wgmma.wait_group before",
          c->w->index, c->cta->rank, use->line, use->result ? "writes" : "reads as A");
  use->number = 0;
}

/* Every instruction but wgmma itself, once the warp has met a wgmma.fence or a wgmma. */
void see_wgmma_registers(Ctx *c, const Ins *i) {
  u32 w;
  WgmmaLog *log = log_of(c, &w);
  if (!log || !log->of || i->unit == UNIT_MMA)
    return;
  for (u32 k = 0; k < (u32)i->nd + i->ns; k++) {
    WgmmaUse *use = &log->of[slot_index(k < i->nd ? i->d[k] : i->s[k - i->nd])];
    if (use->number > c->w->wgmma_waited)
      in_flight(c, use);
    use->touched = log->fences + 1;
  }
}

void see_wgmma_fence(Ctx *c) {
  u32 w;
  WgmmaLog *log = log_of(c, &w);
  if (!log)
    return;
  uses(c, log);
  log->fences++;
  c->w->wgmma_watched = true;
}

static void used(Ctx *c, const WgmmaLog *log, u32 slot, const WgmmaUse *now) {
  WgmmaUse *use = &log->of[slot_index(slot)];
  bool repeated = now->result ? use->result && use->shape == now->shape : !use->result;
  if (use->number > c->w->wgmma_waited && !repeated)
    in_flight(c, use);
  else if (log->fences && use->touched > log->fences)
    finding(
        c, 0, "wgmma-not-fenced",
        "warp %u of CTA %u accessed a register of %s after its last wgmma.fence; missing: a wgmma.fence between that "
        "access and this wgmma",
        c->w->index, c->cta->rank, now->result ? "D" : "A, or its metadata");
  u32 touched = use->touched;
  *use = *now;
  use->touched = touched;
}

void see_wgmma(Ctx *c, const Ins *i, u32 number) {
  u32 w;
  if (c->m->check)
    c->m->check->has_wgmma = true;
  WgmmaLog *log = log_of(c, &w);
  if (!log)
    return;
  uses(c, log);
  c->w->wgmma_watched = true;
  if (!log->fences)
    finding(c, 0, "wgmma-not-fenced", "warp %u of CTA %u has executed no wgmma.fence before its first wgmma",
            c->w->index, c->cta->rank);
  const WgmmaForm *f = &i->form.wgmma;
  WgmmaUse d = {.number = number, .line = i->line, .shape = (u32)f->n << 8 | f->d, .result = true};
  WgmmaUse a = {.number = number, .line = i->line};
  u32 metadata = f->flags & WGMMA_SPARSE ? 1 : 0;
  for (u32 k = f->flags & WGMMA_A_REGISTERS ? 2 : i->ns - metadata; k < i->ns; k++)
    used(c, log, i->s[k], &a);
  for (u32 k = 0; k < i->nd; k++)
    used(c, log, i->d[k], &d);
}

void see_wgmma_wait(Ctx *c, u32 number) {
  Check *check = c->m->check;
  if (!check)
    return;
  u32 w = warp_dim(check, c->cta, c->w->index), first = w - c->w->index % WARPGROUP_WARPS;
  FOR_CLOCKS (c, check, w, own)
    own[check->first.mma + first] = most(own[check->first.mma + first], number);
}
