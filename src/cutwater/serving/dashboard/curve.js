// A curve from one point to another that leaves and arrives along the flow.

export function curve(from, to, vertical) {
  const [first, second] = vertical
    ? [{ x: from.x, y: (from.y + to.y) / 2 }, { x: to.x, y: (from.y + to.y) / 2 }]
    : [{ x: (from.x + to.x) / 2, y: from.y }, { x: (from.x + to.x) / 2, y: to.y }];
  return {
    path: `M${from.x},${from.y}C${first.x},${first.y} ${second.x},${second.y} ${to.x},${to.y}`,
    at(t) {
      const u = 1 - t;
      const mix = (axis) => u * u * u * from[axis] + 3 * u * u * t * first[axis] + 3 * u * t * t * second[axis] + t * t * t * to[axis];
      return { x: mix("x"), y: mix("y") };
    },
    angle(t) {
      const u = 1 - t;
      const slope = (axis) => u * u * (first[axis] - from[axis]) + 2 * u * t * (second[axis] - first[axis]) + t * t * (to[axis] - second[axis]);
      return (Math.atan2(slope("y"), slope("x")) * 180) / Math.PI;
    },
  };
}
