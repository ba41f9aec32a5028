const LEAD = 3;         // a jump starts this many steps before the violation
const MAX_STRIPS = 32;  // decoded strips of pictures in memory, about 600 kB each

function fixed(value, digits) { return value.toFixed(digits).replace("-", "−"); }
function signed(value) { return (value < 0 ? "" : "+") + fixed(value, 2); }

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
}

class Player { // plays the `data` of `page.player` in a section of the page
  constructor(section, data, speed = section.querySelector(".speed")) {
    this.section = section; this.data = data; this.speed = speed;
    this.others = []; // players that pause when the viewer starts this one
    this.changed = () => {}; // called when it starts or stops
    const find = name => section.querySelector(name);
    [this.button, this.scrub, this.readout] = [".play", ".scrub", ".readout"].map(find);
    this.cursors = [...section.querySelectorAll(".cursor")];
    this.values = [...section.querySelectorAll("[data-of]")];
    this.film = this.data.film && new Film(find("canvas"), this.data.film);
    this.position = 0; this.timer = 0;
    this.button.onclick = () => this.toggle();
    this.scrub.oninput = () => { this.pause(); this.go(+this.scrub.value); };
    if (this.film) this.film.canvas.onclick = () => this.toggle();
    for (const jump of section.querySelectorAll("[data-step]"))
      jump.onclick = () => { this.pause(); this.go(+jump.dataset.step - LEAD); };
    for (const area of section.querySelectorAll(".area"))
      area.onpointerdown = event => { if (event.button === 0) this.drag(event, area.getBoundingClientRect()); };
    for (const press of section.querySelectorAll("button"))
      press.addEventListener("click", event => { if (event.detail) press.blur(); }); // so that space plays afterwards
    this.go(0);
  }
  go(position) {
    this.position = Math.max(0, Math.min(this.data.length, Math.round(position)));
    this.scrub.value = this.position;
    for (const cursor of this.cursors) cursor.style.left = 100 * this.position / this.data.length + "%";
    const t = this.position, action = t ? `agent: ${this.data.actions[t - 1]}` : "start", reward = t ? this.data.reward[t - 1] : 0;
    this.readout.textContent = `step ${t} / ${this.data.length} · ${action}` + (t ? ` · reward ${signed(reward)}` : "");
    for (const output of this.values) output.textContent = this.value(output.dataset.of, t);
    if (this.film) this.film.show(t);
  }
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
    if (this.position === this.data.length) this.go(0);
    let last = performance.now(), due = 0;
    const tick = now => {
      due += (now - last) / 1000 * +this.speed.value; last = now;
      if (due >= 1) { this.go(this.position + Math.floor(due)); due %= 1; }
      if (this.position >= this.data.length) this.pause(); else this.timer = requestAnimationFrame(tick);
    };
    this.timer = requestAnimationFrame(tick);
    this.button.textContent = "Pause";
    this.changed();
  }
  pause() {
    cancelAnimationFrame(this.timer); this.timer = 0; this.button.textContent = "Play";
    this.changed();
  }
}
