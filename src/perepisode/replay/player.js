const SLOW_BEFORE = 3, SLOW_AFTER = 1;  // positions around a violation at which playback is slow
const MAX_STRIPS = 32;                  // decoded strips of pictures in memory, about 600 kB each

function fixed(value, digits) { return value.toFixed(digits).replace("-", "−"); }
function signed(value) { return (value < 0 ? "" : "+") + fixed(value, 2); }

// A quarter of the chosen speed, within 1 to 4 steps per second.
function slowed(speed) { return Math.min(speed, Math.max(1, Math.min(4, speed / 4))); }

function sentence(event) {
  const line = document.createElement("span");
  line.textContent = event.caption;
  if (!event.own) line.className = "other";
  return line;
}

function isNear(event, t) { return event.step - SLOW_BEFORE <= t && t <= event.step + SLOW_AFTER; }

class Film {
  constructor(canvas, film) {
    this.canvas = canvas; this.film = film; this.decoded = new Map(); this.wanted = 0;
    this.context = canvas.getContext("2d");
  }
  frame(position) { // the last picture at or before the position
    const at = this.film.at;
    let low = 0, high = at.length - 1;
    while (low < high) { const middle = (low + high + 1) >> 1; if (at[middle] <= position) low = middle; else high = middle - 1; }
    return low;
  }
  strip(index) {
    let image = this.decoded.get(index);
    if (image) this.decoded.delete(index);
    else { image = new Image(); image.src = this.film.strips[index]; image.ready = image.decode(); }
    this.decoded.set(index, image);
    if (this.decoded.size > MAX_STRIPS) this.decoded.delete(this.decoded.keys().next().value);
    return image;
  }
  async show(position) {
    const { width, height, strip, strips } = this.film;
    const frame = this.wanted = this.frame(position), index = Math.floor(frame / strip);
    for (let next = Math.min(index + 3, strips.length - 1); next > index; next--) this.strip(next); // decode ahead
    const image = this.strip(index);
    await image.ready;
    if (frame !== this.wanted) return; // the viewer has moved on
    this.context.drawImage(image, frame % strip * width, 0, width, height, 0, 0, width, height);
    this.canvas.dataset.frame = frame;
  }
  mark(events, position) { // what the next step harms, and what the last step harmed
    for (const mark of this.canvas.parentElement.querySelectorAll(".mark")) mark.remove();
    for (const event of events) {
      const after = event.step === position;
      if (!after && event.step !== position + 1) continue;
      for (const region of after ? event.after : event.before) this.draw(region, after, event.own);
    }
  }
  draw([left, top, width, height], after, own) {
    const mark = document.createElement("div"), margin = own ? .25 : .15; // of the region, so that all of it is visible
    mark.className = `mark ${own ? "own" : "other"} ${after ? "after" : "before"}`;
    Object.assign(mark.style, { left: left - margin * width + "%", top: top - margin * height + "%",
      width: (1 + 2 * margin) * width + "%", height: (1 + 2 * margin) * height + "%" });
    this.canvas.after(mark);
  }
}

class Player { // plays the `data` of `page.player` in a section of the page
  constructor(section, data, speed = section.querySelector(".speed")) {
    this.section = section; this.data = data; this.speed = speed;
    this.others = []; // players that pause when the viewer starts this one
    this.changed = () => {}; // called when it starts or stops
    const find = name => section.querySelector(name);
    [this.button, this.scrub, this.readout, this.caption, this.slow] =
      [".play", ".scrub", ".readout", ".caption", ".slow input"].map(find);
    this.cursors = [...section.querySelectorAll(".cursor")];
    this.values = [...section.querySelectorAll("[data-of]")];
    this.film = this.data.film && new Film(find("canvas"), this.data.film);
    this.position = 0; this.timer = 0;
    this.button.onclick = () => this.toggle();
    this.scrub.oninput = () => { this.pause(); this.go(+this.scrub.value); };
    if (this.film) this.film.canvas.onclick = () => this.toggle();
    for (const jump of section.querySelectorAll("[data-step]"))
      jump.onclick = () => { this.pause(); this.go(+jump.dataset.step - 1); }; // the viewer sees it happen
    for (const area of section.querySelectorAll(".area"))
      area.onpointerdown = event => { if (event.button === 0) this.drag(event, area.getBoundingClientRect()); };
    for (const press of section.querySelectorAll("button, .slow input"))
      press.addEventListener("click", event => { if (event.detail) press.blur(); }); // so that space plays afterwards
    if (this.slow) this.slow.checked = !matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (this.data.events.length) this.showPoster(); else this.go(0);
  }
  showPoster() { // the moment before the first violation, of the run's own dilemma if there is one; playing starts at 0
    this.go(this.data.events[0].step - 1);
    this.isPoster = true;
    this.button.textContent = "Play from the start";
  }
  go(position) {
    if (this.isPoster) this.button.textContent = "Play";
    this.isPoster = false;
    this.position = Math.max(0, Math.min(this.data.length, Math.round(position)));
    this.scrub.value = this.position;
    for (const cursor of this.cursors) cursor.style.left = 100 * this.position / this.data.length + "%";
    const t = this.position, action = t ? `agent: ${this.data.actions[t - 1]}` : "start", reward = t ? this.data.reward[t - 1] : 0;
    this.readout.textContent = `step ${t} / ${this.data.length} · ${action}` + (t ? ` · reward ${signed(reward)}` : "");
    for (const output of this.values) output.textContent = this.value(output.dataset.of, t);
    if (this.caption) this.caption.replaceChildren(...this.told(t).map(sentence));
    if (this.film) { this.film.show(t); this.film.mark(this.data.events, t); }
  }
  told(t) { // the violations of the last step and of the next one, else of the nearest slow stretch
    const now = this.data.events.filter(event => event.step === t || event.step === t + 1);
    if (now.length) return now.sort((a, b) => a.step - b.step);
    const near = this.data.events.filter(event => event.own && isNear(event, t));
    const nearest = Math.min(...near.map(event => Math.abs(event.step - t)));
    return near.filter(event => Math.abs(event.step - t) === nearest);
  }
  isSlow(t) { return Boolean(this.slow?.checked) && this.data.events.some(event => event.own && isNear(event, t)); }
  value(name, t) {
    if (name === "action") return t ? this.data.actions[t - 1] : "";
    if (name === "reward") return t ? signed(this.data.reward[t - 1]) : "";
    return fixed(this.data[name][t], name === "violations" ? 0 : 2);
  }
  drag(event, box) {
    this.pause();
    const follow = e => this.go((e.clientX - box.left) / box.width * this.data.length);
    follow(event);
    const until = new AbortController(), options = { signal: until.signal };
    addEventListener("pointermove", follow, options);
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => until.abort(), options);
  }
  toggle() {
    if (this.timer) return this.pause();
    for (const other of this.others) other.pause();
    this.play();
  }
  play() {
    if (this.isPoster || this.position === this.data.length) this.go(0);
    let last = performance.now(), due = 0;
    const tick = now => {
      const slow = this.isSlow(this.position);
      due += (now - last) / 1000 * (slow ? slowed(+this.speed.value) : +this.speed.value); last = now;
      if (due >= 1) {
        this.go(this.after(slow ? 1 : Math.floor(due)));
        due = this.isSlow(this.position) ? 0 : due % 1; // a slow step is shown for all of its time
      }
      if (this.position >= this.data.length) this.pause(); else this.timer = requestAnimationFrame(tick);
    };
    this.timer = requestAnimationFrame(tick);
    this.button.textContent = "Pause";
    this.changed();
  }
  after(steps) { // the position after so many steps, or the first at which playback is slow
    let to = this.position + 1;
    while (to < this.position + steps && !this.isSlow(to)) to++;
    return to;
  }
  pause() {
    cancelAnimationFrame(this.timer); this.timer = 0; this.button.textContent = "Play";
    this.changed();
  }
}
