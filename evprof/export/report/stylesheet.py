"""How a report looks in HTML: one style sheet for both themes, for screens of any width, and for paper."""

from __future__ import annotations

from evprof.export.report.plots.palette import variables


def stylesheet() -> str:
    """The whole sheet. Holds no text of a report."""
    light, dark = _block(False), _block(True)
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}\n"
        # Each on its own: a browser that does not know :has() leaves out the rule it stands in.
        f":root:has(#theme-light:checked){{color-scheme:light;{light}}}\n"
        f":root:has(#theme-dark:checked){{color-scheme:dark;{dark}}}\n"
        f"{_SHEET}\n"
        f"@media print{{:root,:root:has(#theme-dark:checked){{color-scheme:light;{light}}}{_PAPER}}}\n"
    )


def _block(is_dark: bool) -> str:
    return ";".join(f"{name}:{color}" for name, color in variables(is_dark).items())


_SHEET = """
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0;background:var(--panel);color:var(--text);
font:14px/1.55 Inter,system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;
font-feature-settings:"tnum" 1}
.page{display:grid;grid-template-columns:minmax(0,1fr);max-width:1280px;margin:0 auto;padding:56px 24px 64px}
header{border-bottom:1px solid var(--line);padding-bottom:24px}
h1{font-size:28px;line-height:1.2;font-weight:650;letter-spacing:-.015em;margin:0 0 8px;overflow-wrap:anywhere}
.lead{font-size:16px;color:var(--text-dim);margin:0 0 24px;max-width:72ch}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(220px,1fr));gap:16px 32px;margin:0}
dt,.caps{font-size:11px;letter-spacing:.06em;text-transform:uppercase;color:var(--text-dim);margin:0 0 2px}
dd{margin:0;overflow-wrap:anywhere}
h2{font-size:20px;line-height:1.3;font-weight:650;letter-spacing:-.01em;margin:0 0 16px;scroll-margin-top:24px}
h3{font-size:16px;line-height:1.35;font-weight:650;margin:28px 0 10px}
section{padding:32px 0 8px;border-top:1px solid var(--line)}
main>section:first-child{border-top:0}
p{margin:0 0 16px;max-width:76ch;overflow-wrap:anywhere}
ul{margin:0 0 16px;padding-left:20px;max-width:76ch}
li{margin:0 0 4px;overflow-wrap:anywhere}
a{color:var(--accent);text-decoration:none}
a:hover{text-decoration:underline}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:2px}
nav{margin:24px 0 0}
nav ol{list-style:none;margin:8px 0 0;padding:0;columns:2 240px;column-gap:32px}
nav li{margin:0;padding:3px 0;break-inside:avoid}
nav a{color:var(--text)}
.caption{font-size:13px;color:var(--text-dim);margin:8px 0 24px}
.head{font-weight:600;margin:24px 0 8px;max-width:none}
.scroll{overflow-x:auto;margin:0 0 24px;
background:linear-gradient(90deg,var(--panel) 40%,transparent) left/32px 100% no-repeat local,
linear-gradient(270deg,var(--panel) 40%,transparent) right/32px 100% no-repeat local,
linear-gradient(90deg,var(--line),transparent) left/8px 100% no-repeat scroll,
linear-gradient(270deg,var(--line),transparent) right/8px 100% no-repeat scroll}
table{border-collapse:collapse;font-size:13px;line-height:1.4;min-width:min(100%,480px)}
th{font-weight:550;color:var(--text-dim);text-align:left;vertical-align:bottom;padding:6px 16px 6px 0;
border-bottom:1px solid var(--text-dim)}
td{text-align:left;vertical-align:top;padding:6px 16px 6px 0;border-bottom:1px solid var(--line);max-width:56ch;
overflow-wrap:break-word}
th:first-child,td.f{min-width:176px}
tr:last-child td,td[rowspan]{border-bottom:0}
.groups tr+tr>td.f{border-top:1px solid var(--group)}
.groups tr:has(+tr>td.f)>td:not([rowspan]){border-bottom-color:var(--group)}
th:last-child,td:last-child{padding-right:4px}
th.n,td.n{text-align:right;font-variant-numeric:tabular-nums}
td.n,td.s{white-space:nowrap}
th.m{padding-right:29px}
th.m:last-child{padding-right:17px}
tbody tr:hover td{background:color-mix(in srgb,var(--raised) 60%,transparent)}
.good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}.dim{color:var(--text-dim)}
.tone{font-size:9px;margin-left:4px;vertical-align:1px}
.b{display:inline-block;width:7px;height:7px;margin-left:6px;vertical-align:1px;color:var(--text-dim);opacity:.8;
print-color-adjust:exact;-webkit-print-color-adjust:exact}
.none{display:inline-block;width:13px}
.measured{background:currentColor;border-radius:50%;transform:scale(.8)}
.derived{border-radius:50%;border:1px solid currentColor;
background:linear-gradient(90deg,currentColor 50%,transparent 50%)}
.theoretical{border-radius:50%;border:1px solid currentColor}
.imported{background:currentColor;transform:rotate(45deg) scale(.85)}
.legend{display:flex;flex-wrap:wrap;gap:4px 24px;margin:24px 0 0;font-size:12px;color:var(--text-dim)}
.legend .b{margin:0 8px 0 0}
sup{font-size:10px;line-height:0;margin-left:2px}
sup a{color:var(--text-dim);padding:4px 2px}
li:target{background:var(--selection)}
.notes{font-size:12px;color:var(--text-dim);margin:-8px 0 24px;padding-left:20px}
.callout{border-left:2px solid var(--line);padding:2px 0 2px 12px}
.callout.warn{border-color:var(--warn);color:inherit}.callout.bad{border-color:var(--bad);color:inherit}
.callout.good{border-color:var(--good);color:inherit}
.callout .tone{margin:0 6px 0 0;font-size:11px}
.callout.warn .tone{color:var(--warn)}.callout.bad .tone{color:var(--bad)}.callout.good .tone{color:var(--good)}
.missing{color:var(--text-dim)}
pre{margin:0 0 24px;padding:12px 16px;background:var(--raised);border-radius:4px;overflow-x:auto;
font:12.5px/1.5 ui-monospace,"SF Mono","Cascadia Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre.wrap{white-space:pre-wrap;overflow-wrap:anywhere}
figure{margin:0 0 24px;max-width:800px;container-type:inline-size}
figcaption{font-weight:600;margin:24px 0 12px}
svg.plot{display:block;width:100%;height:auto;overflow:visible;font-size:12px;font-variant-numeric:tabular-nums}
svg.narrow{display:none;max-width:480px}
@container (max-width:560px){svg.wide{display:none}svg.narrow{display:block}}
svg text{fill:var(--text)}
svg .dim{fill:var(--text-dim)}
svg .strong{font-weight:600}
svg .small{font-size:11.5px}
svg .halo{paint-order:stroke;stroke:var(--panel);stroke-width:3px;stroke-linejoin:round}
svg .grid{stroke:var(--line);stroke-width:1}
svg .axis{stroke:var(--text-dim);stroke-width:1;opacity:.6}
svg .reference{stroke:var(--text-dim);stroke-width:1;stroke-dasharray:2 3}
svg .whisker{stroke:var(--text);stroke-width:1.25}
svg .under{stroke:var(--panel);stroke-width:2.75;opacity:.6}
svg .curve{fill:none;stroke-width:2;stroke-linejoin:round}
svg .dashed{stroke-dasharray:6 4}
svg .mark{stroke:var(--panel);stroke-width:1}
svg .hatched{stroke:var(--text-dim);stroke-width:.75}
.themes{position:absolute;top:16px;right:24px;display:flex;font-size:12px;color:var(--text-dim)}
.themes input{position:absolute;opacity:0;pointer-events:none}
.themes label{padding:4px 8px;border-radius:4px;cursor:pointer}
.themes input:checked+label{color:var(--text);background:var(--raised)}
.themes input:focus-visible+label{outline:2px solid var(--accent)}
footer{margin-top:32px;padding-top:16px;border-top:1px solid var(--line);font-size:12px;color:var(--text-dim)}
@media (min-width:1080px){
.page{grid-template-columns:184px minmax(0,1fr);column-gap:40px}
header{grid-column:1/-1}
nav{position:sticky;top:0;align-self:start;margin:0;padding:40px 0 16px;max-height:100vh;overflow-y:auto}
nav ol{columns:1}
nav a{color:var(--text-dim);font-size:13px}
nav a:hover{color:var(--text)}
footer{grid-column:2}}
@media (max-width:640px){
.page{padding:48px 16px 48px}
h1{font-size:22px}
dl{grid-template-columns:1fr 1fr;gap:12px 16px}
th,td{padding-right:14px}
th.m{padding-right:27px}
th:first-child,td.f{min-width:128px}
.themes{right:16px}}
"""

_PAPER = """
.themes,nav{display:none}
.page{display:block;max-width:none;padding:0}
section{break-inside:auto}
figure,tr,pre{break-inside:avoid}
h2,h3,figcaption,.head{break-after:avoid}
.scroll{overflow:visible}
table{font-size:10px}
"""
