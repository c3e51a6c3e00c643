// Points on a canvas: hovering or the arrow keys read one, a click or Enter takes it.

const NEAR = 12; // pixels within which a point is meant
const MARGIN = 10;
const HUES = [164, 28, 262, 340, 208, 82, 0, 300, 48, 186];

export class Map2D {
  constructor(canvas, tell, take) {
    Object.assign(this, { canvas, tell, take, points: [], groups: [], chosen: -1 });
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    canvas.addEventListener("pointermove", (event) => this.choose(this.at(event)));
    canvas.addEventListener("pointerleave", () => this.choose(-1));
    canvas.addEventListener("click", (event) => {
      this.choose(this.at(event));
      this.say();
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  show(points, groups) {
    Object.assign(this, { points, groups, chosen: -1 });
    this.draw();
  }

  colour(group) {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    return `hsl(${HUES[group % HUES.length]} ${group < HUES.length ? 60 : 25}% ${dark ? 68 : 38}%)`;
  }

  place({ x, y }) { // x and y go from 0 to 1
    const { clientWidth, clientHeight } = this.canvas;
    return [MARGIN + x * (clientWidth - 2 * MARGIN), MARGIN + y * (clientHeight - 2 * MARGIN)];
  }

  draw() {
    const { canvas, points } = this, scale = devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = canvas.clientHeight * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const size = points.length > 600 ? 2 : 3.5;
    points.forEach((point, i) => {
      const [x, y] = this.place(point);
      pen.fillStyle = this.colour(point.group);
      pen.beginPath();
      pen.arc(x, y, i === this.chosen ? 7 : size, 0, 7);
      pen.fill();
    });
    if (this.chosen >= 0) {
      const [x, y] = this.place(points[this.chosen]);
      pen.strokeStyle = getComputedStyle(canvas).color;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(x, y, 8, 0, 7);
      pen.stroke();
    }
  }

  at(event) {
    let best = -1, nearest = NEAR ** 2;
    this.points.forEach((point, i) => {
      const [x, y] = this.place(point), distance = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
      if (distance < nearest) [best, nearest] = [i, distance];
    });
    return best;
  }

  choose(point) {
    if (point === this.chosen) return;
    this.chosen = point;
    if (point >= 0) this.tell(this.points[point].text);
    this.draw();
  }

  say() {
    if (this.chosen >= 0) this.take(this.points[this.chosen].text);
  }

  key(event) {
    const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (event.key === "Enter") this.say();
    if (!way || !this.points.length) return;
    event.preventDefault();
    if (this.chosen < 0) return this.choose(0);
    const [x0, y0] = this.place(this.points[this.chosen]);
    let best = this.chosen, least = Infinity;
    this.points.forEach((point, i) => { // the nearest one in that direction, those aside counting as farther
      const [x, y] = this.place(point), dx = x - x0, dy = y - y0;
      const along = dx * way[0] + dy * way[1], aside = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
      const cost = along + 2 * aside;
      if (along > 0.5 && cost < least) [best, least] = [i, cost];
    });
    this.choose(best);
  }
}
