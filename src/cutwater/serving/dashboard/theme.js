// Which theme was chosen? Set before anything is drawn; without a choice the system's counts.
"use strict";
{
  const chosen = localStorage.getItem("cutwater-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}
