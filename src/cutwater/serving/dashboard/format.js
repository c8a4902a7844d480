// How is a figure written for people? With a thin space before its unit.
const THIN = "\u202f";

export function count(value) {
  return Math.round(value).toLocaleString("en");
}

export function short(value) {
  if (value < 10) return value === 0 ? "0" : value.toFixed(1);
  if (value < 1000) return String(Math.round(value));
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size * 0.9995) return (value / size).toFixed(value < size * 100 ? 1 : 0) + THIN + unit;
  }
  return String(Math.round(value));
}

export function rate(value) {
  return `${short(value)}/s`;
}

export function bytes(value) {
  if (value < 1000) return `${Math.round(value)}${THIN}B`;
  for (const [size, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (value >= size) return `${(value / size).toFixed(value < size * 100 ? 1 : 0)}${THIN}${unit}`;
  }
}

export function seconds(value) {
  if (value === 0) return `0${THIN}ms`;
  if (value < 0.01) return `${(value * 1000).toFixed(1)}${THIN}ms`;
  if (value < 1) return `${Math.round(value * 1000)}${THIN}ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)}${THIN}s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 60) return `${minutes}${THIN}min ${Math.floor(value % 60)}${THIN}s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}${THIN}h ${minutes % 60}${THIN}min`;
  return `${Math.floor(hours / 24)}${THIN}d ${hours % 24}${THIN}h`;
}

export function share(value) {
  return `${Math.round(value * 100)}${THIN}%`;
}

export function clock(milliseconds) {
  return milliseconds ? new Date(milliseconds).toLocaleTimeString("en-GB") : "";
}

export function moment(milliseconds) {
  const date = new Date(milliseconds);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString().slice(0, 19).replace("T", " ");
}

export function plural(number, one, several = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : several}`;
}

export function words(state) {
  return state.replaceAll("_", " ");
}
