// How far is event time? As a lag where the clock of the records is today's, else as the time itself.
import { moment, seconds } from "/assets/format.js";

const A_DAY_MS = 86_400_000;
const END_MS = 8e15;

export function watermarkWords(watermarkMs, nowMs) {
  if (watermarkMs === null) return "";
  if (watermarkMs > END_MS) return "watermark: the end";
  if (watermarkMs < -END_MS) return "watermark: none yet";
  const behindMs = nowMs - watermarkMs;
  if (Math.abs(behindMs) > A_DAY_MS) return `watermark ${moment(watermarkMs)}`;
  return behindMs >= 0 ? `watermark ${seconds(behindMs / 1000)} behind` : `watermark ${seconds(-behindMs / 1000)} ahead`;
}
