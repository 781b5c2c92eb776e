// SPDX-License-Identifier: Apache-2.0
#include "lab/page/html.hpp"

#include <fmt/format.h>

#include "lab/page/style.hpp"
#include "lab/paper/markup.hpp"
#include "lab/paper/svg.hpp"

namespace ramp {
namespace {

// A plot of so many names needs the whole width.
constexpr size_t kManyNames = 10;
// A text of more letters is broken into lines inside its cell.
constexpr size_t kLongText = 60;

std::string element(const std::string& name, const std::string& text,
                    const std::string& attributes = "") {
  return fmt::format("<{0}{1}{2}>{3}</{0}>", name, attributes.empty() ? "" : " ", attributes,
                     escape_markup(text));
}

// A text of ours or of a file, with what stands between two backticks as code.
std::string prose(const std::string& name, const std::string& text,
                  const std::string& attributes = "") {
  std::string out = element(name, text, attributes);
  for (size_t from = out.find('`'); from != std::string::npos; from = out.find('`', from)) {
    const size_t to = out.find('`', from + 1);
    if (to == std::string::npos) break;
    out.replace(to, 1, "</code>").replace(from, 1, "<code>");
  }
  return out;
}

// "1.24x [1.20, 1.31]": the interval stands back behind the number.
std::string cell_text(const std::string& text) {
  const size_t at = text.find(" [");
  if (at == std::string::npos || !text.ends_with(']')) return escape_markup(text);
  return fmt::format("{} <span class=\"range\">{}</span>", escape_markup(text.substr(0, at)),
                     escape_markup(text.substr(at + 1)));
}

std::string table_row(const std::vector<std::string>& cells, const std::vector<bool>& is_left,
                      const std::string& why_not) {
  std::string out = "<tr>";
  for (size_t c = 0; c < cells.size(); ++c) {
    const bool is_why = !why_not.empty() && cells[c] == why_not;
    std::string style = is_why ? "why" : is_left[c] ? "left" : "";
    if (is_left[c] && cells[c].size() > kLongText) style += " wrap";
    const std::string attribute = style.empty() ? "" : fmt::format(" class=\"{}\"", style);
    // A reason takes the room of the numbers that are not there.
    const std::string span =
        is_why && cells.size() > c + 1 ? fmt::format(" colspan=\"{}\"", cells.size() - c) : "";
    out += c == 0 ? fmt::format("<th scope=\"row\"{}>{}</th>", attribute, cell_text(cells[c]))
                  : fmt::format("<td{}{}>{}</td>", attribute, span, cell_text(cells[c]));
    if (is_why) break;
  }
  return out + "</tr>\n";
}

std::string table_html(const Report& report) {
  if (report.rows.empty()) return "";
  const std::vector<std::vector<std::string>> grid = grid_of(report);
  std::string out = "<div class=\"scroll\">\n<table>\n";
  if (!report.title.empty()) out += element("caption", report.title) + "\n";
  out += "<thead><tr>";
  std::vector<bool> is_left;
  for (const std::string& heading : grid[0]) {
    is_left.push_back(heading.starts_with('<'));
    out += element("th", is_left.back() ? heading.substr(1) : heading,
                   is_left.back() ? "scope=\"col\" class=\"left\"" : "scope=\"col\"");
  }
  out += "</tr></thead>\n<tbody>\n";
  for (size_t r = 1; r < grid.size(); ++r)
    out += table_row(grid[r], is_left, report.rows[r - 1].why_not);
  return out + "</tbody>\n</table>\n</div>\n";
}

std::string plots_html(const Report& report, const std::string& id) {
  std::string out;
  int number = 0;
  for (const Plot& plot : report.plots) {
    const bool is_one = plot.panels.size() == 1;
    out += "<div class=\"plots\">\n";
    for (const Panel& panel : plot.panels) {
      const bool is_wide = panel.categories.size() >= kManyNames;
      out += fmt::format("<figure{}>\n{}</figure>\n",
                         is_wide  ? " class=\"wide\""
                         : is_one ? " class=\"one\""
                                  : "",
                         inline_svg(panel, fmt::format("{}-{}", id, ++number), is_wide));
    }
    out += "</div>\n";
  }
  return out;
}

std::string facts_html(const std::vector<Fact>& facts) {
  if (facts.empty()) return "";
  std::string out = "<dl class=\"facts\">\n";
  for (const Fact& fact : facts) out += element("dt", fact.name) + prose("dd", fact.value) + "\n";
  return out + "</dl>\n";
}

std::string section_html(const PageSection& section) {
  const std::string id = escape_markup(section.id);
  std::string out = fmt::format("<section id=\"{0}\" aria-labelledby=\"{0}-heading\">\n", id);
  out += element("h2", section.title, fmt::format("id=\"{}-heading\"", id)) + "\n";
  for (const std::string& text : section.says) out += prose("p", text) + "\n";
  out += facts_html(section.facts);
  int number = 0;
  for (const Report& report : section.parts) {
    out += table_html(report);
    out += plots_html(report, fmt::format("{}-{}", section.id, ++number));
    for (const std::string& note : report.notes) out += prose("p", note, "class=\"note\"") + "\n";
  }
  if (!section.commands.empty()) {
    out += "<pre><code>";
    for (const std::string& command : section.commands) out += escape_markup(command) + "\n";
    out += "</code></pre>\n";
  }
  return out + "</section>\n";
}

std::string headline_html(const Headline& headline) {
  const char* kind = headline.kind == Headline::Kind::kGood  ? " class=\"good\""
                     : headline.kind == Headline::Kind::kBad ? " class=\"bad\""
                                                             : "";
  return fmt::format("<div{}>{}{}{}</div>\n", kind, element("dt", headline.name),
                     element("dd", headline.value, "class=\"value\""),
                     element("dd", headline.more, "class=\"more\""));
}

std::string header_html(const Page& page) {
  std::string out = "<header>\n" + element("h1", page.title) + "\n" +
                    element("p", page.subtitle, "class=\"subtitle\"") + "\n";
  if (!page.warnings.empty()) {
    out += "<div class=\"warnings\" role=\"note\"><ul>\n";
    for (const std::string& warning : page.warnings) out += prose("li", warning) + "\n";
    out += "</ul></div>\n";
  }
  if (!page.headlines.empty()) {
    out += "<dl class=\"headlines\">\n";
    for (const Headline& headline : page.headlines) out += headline_html(headline);
    out += "</dl>\n";
  }
  out += "<nav aria-label=\"Sections\"><ul>\n";
  for (const PageSection& section : page.sections)
    out += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", escape_markup(section.id),
                       escape_markup(section.title));
  return out + "</ul></nav>\n</header>\n";
}

}  // namespace

std::string html_of(const Page& page) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n{}\n"
      "<style>{}</style>\n</head>\n<body>\n",
      element("title", page.title), kPageStyle);
  out += header_html(page) + "<main>\n";
  for (const PageSection& section : page.sections) out += section_html(section);
  return out + "</main>\n" + element("footer", page.footer) + "\n</body>\n</html>\n";
}

}  // namespace ramp
