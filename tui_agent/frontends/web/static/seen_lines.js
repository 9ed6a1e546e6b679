// Notes which lines were in sight: what was never shown can't be approved.

const ROUNDING = 1;  // pixels that a line may be out of sight, since browsers scroll by whole pixels
const ENOUGH = 0.99;  // part of a line that must have been in sight

/** Tracks elements in nested scroll areas; a line higher than its area counts once all its parts were shown. */
export class SeenLines {
  constructor(onChange) {
    this.onChange = onChange;
    this.unseen = new Map();  // element → the parts of it that were in sight, as [start, end] from 0 to 1
    this.inView = new Set();
    this.observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) this.inView.add(target);
        else this.inView.delete(target);
      }
      this.measure();
    });
    this.wasShown = false;
    this.onScroll = () => this.measure();
    this.seen = new WeakSet();
  }

  /** Stop once the elements were removed from the page. */
  stopIfRemoved() {
    if (this.inView.size) this.wasShown = true;
    else if (this.wasShown && ![...this.unseen.keys()].some((each) => each.isConnected)) {
      for (const name of ["scroll", "resize"]) removeEventListener(name, this.onScroll, { capture: true });
    }
  }

  /** Watch elements from now on, unless they were seen. */
  add(elements) {
    this.wasShown = false;
    for (const name of ["scroll", "resize"]) addEventListener(name, this.onScroll, { capture: true, passive: true });
    for (const element of elements) {
      if (this.seen.has(element) || this.unseen.has(element)) continue;
      this.unseen.set(element, []);
      this.observer.observe(element);
    }
  }

  /** Forget everything: something else is shown. */
  reset() {
    this.observer.disconnect();
    this.unseen.clear();
    this.inView.clear();
    this.seen = new WeakSet();
  }

  measure() {
    if (document.hidden) return;
    this.stopIfRemoved();
    const before = this.unseen.size;
    for (const element of this.inView) {
      if (!element.isConnected) { this.inView.delete(element); continue; }
      const parts = this.unseen.get(element);
      if (!parts) continue;
      const box = element.getBoundingClientRect();
      const [top, bottom] = visibleRange(element, box);
      if (bottom <= top || !box.height) continue;
      parts.push([(top - box.top) / box.height, (bottom - box.top) / box.height]);
      if (covered(parts) < ENOUGH) continue;
      this.seen.add(element);
      this.unseen.delete(element);
      this.inView.delete(element);
      this.observer.unobserve(element);
    }
    if (this.unseen.size !== before) this.onChange();
  }
}

/** The top and bottom of what is visible of an element, within the areas that clip it. */
function visibleRange(element, box) {
  let { top, bottom } = box;
  for (let area = element.parentElement; area && area !== document.body; area = area.parentElement) {
    if (getComputedStyle(area).overflowY === "visible") continue;
    const clip = area.getBoundingClientRect();
    top = Math.max(top, clip.top);
    bottom = Math.min(bottom, clip.bottom);
  }
  top = Math.max(top, 0);
  bottom = Math.min(bottom, innerHeight);
  return [top - box.top < ROUNDING ? box.top : top, box.bottom - bottom < ROUNDING ? box.bottom : bottom];
}

/** The length that the parts cover together; merges them. */
function covered(parts) {
  parts.sort((a, b) => a[0] - b[0]);
  const merged = [];
  for (const [start, end] of parts) {
    const last = merged.at(-1);
    if (last && start <= last[1] + 0.001) last[1] = Math.max(last[1], end);
    else merged.push([start, end]);
  }
  parts.splice(0, parts.length, ...merged);
  return merged.reduce((sum, [start, end]) => sum + end - start, 0);
}
