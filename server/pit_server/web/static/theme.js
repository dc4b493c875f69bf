// Before the first paint: the theme that was chosen, if the system's is not wanted.
"use strict";
{
  const chosen = localStorage.getItem("pit-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme")?.addEventListener("click", () => {
      const root = document.documentElement;
      const isDark = getComputedStyle(root).colorScheme === "dark"
        || (root.dataset.theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
      root.dataset.theme = isDark ? "light" : "dark";
      localStorage.setItem("pit-theme", root.dataset.theme);
      dispatchEvent(new Event("pit-theme"));
    });
  });
}
