// The visible part of the transcript: follows the end, fetches older messages, and drops those far above the end.

import { $, el, button } from "./dom.js";
import { render } from "./rendering.js";
import { Transcript } from "./transcript.js";
import { history } from "./wire.js";

const END_DISTANCE = 60;  // pixels from the end at which the transcript follows
const TOP_DISTANCE = 600;  // pixels from the top at which older messages are fetched
const MAX_ITEMS = 400;  // elements above which the oldest are dropped while the end is followed
const KEPT_ITEMS = 200;
const INPUT_MS = 700;  // a scroll within this time of a wheel, key or finger is the user's

export class Viewport {
  constructor(transcript, report) {
    this.transcript = transcript;
    this.report = report;
    this.items = transcript.items;
    this.scroll = $("scroll");
    this.following = true;
    this.older = 0;  // number of the record before which older ones can be fetched; 0: none
    this.isLoading = false;
    this.touchedAt = -Infinity;
    this.olderButton = button("Show earlier messages", () => this.loadOlder(), { id: "older", class: "quiet", hidden: true });
    this.items.before(this.olderButton);
    this.remember();
    for (const name of ["wheel", "touchmove", "pointerdown", "keydown"]) this.scroll.addEventListener(name, () => { this.touchedAt = performance.now(); }, { passive: true });
    this.scroll.addEventListener("scroll", () => this.scrolled(), { passive: true });
    $("to-end").addEventListener("click", () => { this.followEnd(); this.scroll.focus({ preventScroll: true }); });
    const observer = new ResizeObserver(() => this.resized());
    observer.observe(this.items);
    observer.observe(this.scroll);
  }

  remember() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroll;
    this.last = { scrollTop, scrollHeight, clientHeight };
  }

  /** Tell the user's scrolling from what the browser does when sizes change: only the user leaves the end. */
  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroll;
    const sameSize = scrollHeight === this.last.scrollHeight && clientHeight === this.last.clientHeight;
    const byUser = sameSize || performance.now() - this.touchedAt < INPUT_MS;
    if (scrollHeight - scrollTop - clientHeight < END_DISTANCE) this.setFollowing(true);
    else if (scrollTop < this.last.scrollTop - 1 && byUser) this.setFollowing(false);
    this.remember();
    if (!this.following && scrollTop < TOP_DISTANCE) this.loadOlder();
  }

  resized() {
    if (this.following) this.scroll.scrollTop = this.scroll.scrollHeight;
    this.remember();
  }

  setFollowing(isFollowing) {
    this.following = isFollowing;
    $("to-end").hidden = isFollowing;
  }

  /** Go to the end and stay there. */
  followEnd() {
    this.setFollowing(true);
    this.resized();
  }

  /** Go to the first element that is shown. */
  toTop() {
    this.setFollowing(false);
    this.scroll.scrollTop = 0;
    this.remember();
    this.loadOlder();
  }

  // --- the history ---

  setOlder(before) {
    this.older = before;
    this.olderButton.hidden = !before;
  }

  /** Fetch older messages once the page has nothing else to do, if those shown don't fill the view. */
  fillLater() {
    (window.requestIdleCallback ?? setTimeout)(() => { if (this.scroll.scrollTop < TOP_DISTANCE) this.loadOlder(); });
  }

  /** Fetch the messages before those that are shown; what is in view stays where it is. */
  async loadOlder() {
    const { older: asked } = this;
    if (!asked || this.isLoading) return;
    this.isLoading = true;
    this.olderButton.disabled = true;
    try {
      const part = await history(asked);
      if (this.older === asked) this.addOlder(part);  // else it was cleared meanwhile
    } catch (error) { this.report(error.message); }
    this.olderButton.disabled = false;
    this.isLoading = false;
  }

  addOlder({ events, before, cut }) {
    const older = new Transcript(el("div"));
    if (cut && !before) render(older, "history.cut", {});
    for (const [name, event] of events) render(older, name, event);
    older.endCalls();
    const hadFocus = document.activeElement === this.olderButton;
    const { scrollTop, scrollHeight } = this.scroll;
    this.items.setAttribute("aria-busy", "true");  // not read out as new
    this.items.prepend(...older.items.childNodes);
    this.setOlder(before);
    this.scroll.scrollTop = scrollTop + this.scroll.scrollHeight - scrollHeight;
    this.items.removeAttribute("aria-busy");
    if (hadFocus && this.olderButton.hidden) this.scroll.focus({ preventScroll: true });
    this.remember();
  }

  /** Drop the oldest elements if there are many and nobody looks at them; they can be fetched again. */
  trim() {
    if (!this.following || this.isLoading || this.items.childElementCount <= MAX_ITEMS || this.isInUse()) return;
    const first = [...this.items.children].slice(-KEPT_ITEMS).find((each) => each.matches(".user, .reply"));  // a call belongs to its reply
    if (!first) return;
    while (this.items.firstElementChild !== first) this.items.firstElementChild.remove();
    this.setOlder(first.seq);
    this.resized();
  }

  isInUse() {
    const selection = getSelection();
    return this.items.contains(document.activeElement) || (!selection.isCollapsed && this.items.contains(selection.anchorNode));
  }

  /** Forget what is shown. */
  clear() {
    this.setOlder(0);
  }
}
