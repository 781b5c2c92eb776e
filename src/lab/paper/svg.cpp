// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lab/paper/markup.hpp"

namespace ramp {
namespace {

// px.  A panel's frame stands inside these margins; the legend has its own lines above the frame.
constexpr double kPanelWidth = 460, kFrameHeight = 240;
constexpr double kLeft = 64, kRight = 16, kTop = 26, kBottom = 52, kTitle = 34, kLegendLine = 16;
constexpr double kLetter = 6, kTitleLetter = 8.5;  // about, of the fonts that people have
constexpr int kPanelsARow = 3;
constexpr size_t kMostMarks = 200;  // of a series whose points are seen one by one
// Told apart by people who don't see red and green alike (Okabe and Ito).
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#000000"};

// The colours of what is no data.
struct Look {
  const char* grid;
  const char* frame;
  const char* ink;
  const char* last_colour;  // of kColours: black is no colour on a dark page
  bool is_for_page;         // points say their numbers when they are pointed at
};
constexpr Look kOnWhite = {"#ddd", "#888", "#444", "#000000", false};
constexpr Look kOnAnyPage = {"#88888840", "#888888", "currentColor", "#888888", true};

std::string tick_text(double value) {
  if (value != 0 && (std::abs(value) >= 1e5 || std::abs(value) < 1e-3))
    return fmt::format("{:.0e}", value);
  return fmt::format("{:g}", value);
}

struct Axis {
  double low = 0, high = 1, from = 0, to = 1;  // values, px
  bool is_log = false;
  std::vector<double> ticks;

  double at(double value) const {
    const double a = is_log ? std::log(low) : low, b = is_log ? std::log(high) : high;
    const double v = is_log ? std::log(std::max(value, low / 10)) : value;
    return from + (v - a) / (b - a) * (to - from);
  }
};

struct Extent {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double value, bool is_log) {
    if (!std::isfinite(value) || (is_log && value <= 0)) return;
    low = std::min(low, value), high = std::max(high, value);
  }
};

Axis make_axis(Extent extent, bool is_log, double from, double to, bool with_zero) {
  if (extent.low > extent.high) extent.low = is_log ? 1 : 0, extent.high = is_log ? 10 : 1;
  if (with_zero && !is_log) extent.low = std::min(extent.low, 0.0);
  if (extent.low == extent.high) {
    const double pad = extent.low == 0 ? 1 : std::abs(extent.low) * 0.5;
    extent.low -= is_log ? extent.low / 2 : pad, extent.high += pad;
  }
  Axis axis{extent.low, extent.high, from, to, is_log, ticks_of(extent.low, extent.high, is_log)};
  if (!is_log) {
    axis.low = std::min(axis.low, axis.ticks.front());
    axis.high = std::max(axis.high, axis.ticks.back());
  } else {
    axis.low /= 1.1, axis.high *= 1.1;
  }
  return axis;
}

class Drawing {
 public:
  Drawing(const Panel& panel, double left, double top, double width, const Look& look)
      : panel_(panel), look_(look), left_(left), top_(top) {
    int entries = static_cast<int>(panel.levels.size());
    for (const Series& series : panel.series) entries += !series.name.empty();
    legend_lines_ = (entries + 1) / 2;
    const double frame_top = top_ + kTop + kLegendLine * legend_lines_;
    const bool has_names = !panel.categories.empty();
    Extent x, y;
    bool has_bars = false;
    for (const Series& series : panel.series) {
      has_bars |= series.kind == Series::Kind::kBars;
      for (const double v : series.x) x.add(v, panel.log_x);
      for (const auto* values : {&series.y, &series.low, &series.high})
        for (const double v : *values) y.add(v, panel.log_y);
    }
    for (const Panel::Level& level : panel.levels) y.add(level.y, panel.log_y);
    x_ = make_axis(x, panel.log_x, left_ + kLeft, left_ + width - kRight, false);
    if (has_names) {
      x_.low = -0.5, x_.high = static_cast<double>(panel.categories.size()) - 0.5;
      x_.ticks.clear();
      for (size_t i = 0; i < panel.categories.size(); ++i) x_.ticks.push_back(i);
    }
    y_ = make_axis(y, panel.log_y, frame_top + kFrameHeight, frame_top, has_bars);
  }

  std::string text() {
    axes();
    size_t colour = 0;
    double bars = 0;
    for (const Series& series : panel_.series) bars += series.kind == Series::Kind::kBars;
    double bar = 0;
    for (const Series& series : panel_.series) {
      const size_t place = colour++ % std::size(kColours);
      const std::string paint =
          place + 1 == std::size(kColours) ? look_.last_colour : kColours[place];
      switch (series.kind) {
        case Series::Kind::kLine:
          line(series, paint);
          break;
        case Series::Kind::kPoints:
          points(series, paint);
          break;
        case Series::Kind::kBars:
          draw_bars(series, paint, bar++, bars);
          break;
        case Series::Kind::kArea:
          area(series, paint);
          break;
        case Series::Kind::kStars:
          stars(series, paint);
          break;
      }
      if (!series.name.empty()) legend(series.name, paint, false);
    }
    for (const Panel::Level& level : panel_.levels) {
      const double y = y_.at(level.y);
      out_ += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
          "stroke-dasharray=\"5 4\"/>\n",
          x_.from, y, x_.to, y, look_.ink);
      legend(level.name, look_.ink, true);
    }
    return out_;
  }

  double height() const {
    return kTop + kLegendLine * legend_lines_ + kFrameHeight + kBottom + tilted_height();
  }

 private:
  void label(double x, double y, const std::string& text, const char* anchor,
             const std::string& more = "") {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                        anchor, more, escape_markup(text));
  }

  void axes() {
    label((x_.from + x_.to) / 2, top_ + 14, panel_.title, "middle", " font-weight=\"bold\"");
    for (const double tick : y_.ticks) {
      const double y = y_.at(tick);
      if (y > y_.from + 0.5 || y < y_.to - 0.5) continue;
      out_ += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n",
          x_.from, y, x_.to, y, look_.grid);
      label(x_.from - 6, y + 4, tick_text(tick), "end");
    }
    const bool has_names = !panel_.categories.empty();
    const bool is_crowded = has_names && !names_fit();
    for (size_t i = 0; i < x_.ticks.size(); ++i) {
      const double x = x_.at(x_.ticks[i]);
      if (x < x_.from - 0.5 || x > x_.to + 0.5) continue;
      out_ += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x,
          y_.from, x, y_.from + 4, look_.frame);
      const std::string text = has_names ? panel_.categories[i] : tick_text(x_.ticks[i]);
      if (has_names && is_crowded)
        label(x, y_.from + 14, text, "end",
              fmt::format(" transform=\"rotate(-40 {:.1f} {:.1f})\"", x, y_.from + 14));
      else
        label(x, y_.from + 18, text, "middle");
    }
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" "
        "stroke=\"{}\"/>\n",
        x_.from, y_.to, x_.to - x_.from, y_.from - y_.to, look_.frame);
    label((x_.from + x_.to) / 2, y_.from + 38 + tilted_height(), panel_.x_label, "middle");
    const double middle = (y_.from + y_.to) / 2;
    label(left_ + 14, middle, panel_.y_label, "middle",
          fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", left_ + 14, middle));
  }

  double longest_name() const {
    double longest = 0;
    for (const std::string& name : panel_.categories)
      longest = std::max(longest, kLetter * static_cast<double>(name.size()));
    return longest;
  }
  bool names_fit() const {
    return longest_name() * static_cast<double>(panel_.categories.size()) < x_.to - x_.from;
  }
  // What names at 40 degrees take below the frame, beyond those that stand level.
  double tilted_height() const { return names_fit() ? 0 : 0.64 * longest_name(); }

  bool is_drawn(const Series& series, size_t i) const {
    return std::isfinite(series.x[i]) && std::isfinite(series.y[i]) &&
           !(panel_.log_x && series.x[i] <= 0) && !(panel_.log_y && series.y[i] <= 0);
  }

  std::string path_of(const std::vector<double>& xs, const std::vector<double>& ys) const {
    std::string path;
    for (size_t i = 0; i < xs.size(); ++i)
      if (std::isfinite(ys[i])) path += fmt::format("{:.1f},{:.1f} ", x_.at(xs[i]), y_.at(ys[i]));
    return path;
  }

  // What an element says when it is pointed at, with its end.
  std::string end_of(const char* element, const Series& series, size_t i) const {
    if (!look_.is_for_page) return "/>\n";
    const auto number = [](double value) {
      return fmt::format("{:.{}f}", value,
                         std::abs(value) < 10    ? 2
                         : std::abs(value) < 100 ? 1
                                                 : 0);
    };
    const std::string at = panel_.categories.empty()
                               ? fmt::format("{:g}", series.x[i])
                               : panel_.categories[static_cast<size_t>(series.x[i])];
    std::string text = fmt::format("{}{}{}: {}", series.name, series.name.empty() ? "" : ", ", at,
                                   number(series.y[i]));
    if (i < series.low.size() && std::isfinite(series.low[i]))
      text += fmt::format(" [{}, {}]", number(series.low[i]), number(series.high[i]));
    return fmt::format("><title>{}</title></{}>\n", escape_markup(text), element);
  }

  void line(const Series& series, const std::string& paint) {
    out_ +=
        fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
                    path_of(series.x, series.y), paint);
    if (!look_.is_for_page || series.x.size() > kMostMarks) return;
    for (size_t i = 0; i < series.x.size(); ++i)
      if (is_drawn(series, i))
        out_ +=
            fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" fill=\"{}\"{}",
                        x_.at(series.x[i]), y_.at(series.y[i]), paint, end_of("circle", series, i));
  }

  void points(const Series& series, const std::string& paint) {
    const bool is_many = series.x.size() > kMostMarks;
    for (size_t i = 0; i < series.x.size(); ++i)
      if (i < series.low.size() && is_drawn(series, i) && std::isfinite(series.low[i]))
        out_ += fmt::format(
            "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" "
            "stroke-opacity=\"0.6\"/>\n",
            x_.at(series.x[i]), y_.at(series.low[i]), y_.at(series.high[i]), paint);
    for (size_t i = 0; i < series.x.size(); ++i)
      if (is_drawn(series, i))
        out_ += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\" fill-opacity=\"{}\"{}",
            x_.at(series.x[i]), y_.at(series.y[i]), is_many ? 1.4 : 3, paint, is_many ? 0.4 : 0.9,
            is_many ? "/>\n" : end_of("circle", series, i));
  }

  void area(const Series& series, const std::string& paint) {
    std::vector<double> xs = series.x, ys = series.y;
    for (size_t i = series.x.size(); i-- > 0;) {
      xs.push_back(series.x[i]);
      ys.push_back(series.low[i]);
    }
    out_ += fmt::format("<polygon points=\"{}\" fill=\"{}\" fill-opacity=\"0.55\"/>\n",
                        path_of(xs, ys), paint);
  }

  void draw_bars(const Series& series, const std::string& paint, double index, double bars) {
    const double slot = x_.at(1) - x_.at(0), width = 0.8 * slot / bars;
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (!std::isfinite(series.y[i])) continue;
      const double x = x_.at(series.x[i]) - 0.4 * slot + index * width;
      const double y = y_.at(series.y[i]), zero = y_.at(std::max(y_.low, 0.0));
      out_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
          "fill-opacity=\"0.8\"{}",
          x, std::min(y, zero), width, std::abs(zero - y), paint, end_of("rect", series, i));
      if (i < series.low.size() && std::isfinite(series.low[i]))
        out_ += fmt::format(
            "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\"/>\n",
            x + width / 2, y_.at(series.low[i]), y_.at(series.high[i]), look_.ink);
    }
  }

  void stars(const Series& series, const std::string& paint) {
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (!is_drawn(series, i)) continue;
      std::string path;
      for (int corner = 0; corner < 10; ++corner) {
        const double radius = corner % 2 ? 3.2 : 8, angle = M_PI * (corner / 5.0 - 0.5);
        path += fmt::format("{:.1f},{:.1f} ", x_.at(series.x[i]) + radius * std::cos(angle),
                            y_.at(series.y[i]) + radius * std::sin(angle));
      }
      out_ += fmt::format("<polygon points=\"{}\" fill=\"{}\" stroke=\"#000\"/>\n", path, paint);
    }
  }

  void legend(const std::string& name, const std::string& paint, bool is_level) {
    const double x = x_.from + (entries_ % 2) * (x_.to - x_.from) / 2;
    const double y = top_ + kTop + kLegendLine * (entries_ / 2) + 6;
    out_ += is_level ? fmt::format(
                           "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
                           "stroke=\"{}\" stroke-dasharray=\"5 4\"/>\n",
                           x, y - 4, x + 18, y - 4, paint)
                     : fmt::format(
                           "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"8\" "
                           "fill=\"{}\"/>\n",
                           x + 3, y - 8, paint);
    label(x + 23, y, name, "start");
    ++entries_;
  }

  const Panel& panel_;
  const Look& look_;
  double left_, top_;
  int legend_lines_ = 0, entries_ = 0;
  Axis x_, y_;
  std::string out_;
};

}  // namespace

std::vector<double> ticks_of(double low, double high, bool is_log) {
  std::vector<double> ticks;
  if (is_log) {
    const bool has_few = high / low < 100;
    for (double power = std::pow(10, std::floor(std::log10(low))); power <= high * 1.0001;
         power *= 10)
      for (const double step : {1.0, 2.0, 5.0})
        if ((step == 1 || has_few) && step * power >= low * 0.9999 && step * power <= high * 1.0001)
          ticks.push_back(step * power);
    return ticks;
  }
  const double rough = (high - low) / 5, power = std::pow(10, std::floor(std::log10(rough)));
  const double step = power * (rough / power <= 1   ? 1
                               : rough / power <= 2 ? 2
                               : rough / power <= 5 ? 5
                                                    : 10);
  const double first = std::floor(low / step + 1e-9);
  for (int i = 0; ticks.empty() || ticks.back() < high - 1e-9 * step; ++i)
    ticks.push_back((first + i) * step);
  return ticks;
}

std::string svg_of(const std::vector<Plot>& plots) {
  std::string body;
  double y = 0, width = kPanelWidth;
  for (const Plot& plot : plots) {
    body += fmt::format("<text x=\"16\" y=\"{:.1f}\" font-size=\"15\">{}</text>\n", y + 22,
                        escape_markup(plot.title));
    width = std::max(width, 32 + kTitleLetter * static_cast<double>(plot.title.size()));
    y += kTitle;
    double row_height = 0;
    for (size_t p = 0; p < plot.panels.size(); ++p) {
      if (p > 0 && p % kPanelsARow == 0) y += row_height, row_height = 0;
      const double left = static_cast<double>(p % kPanelsARow) * kPanelWidth;
      Drawing drawing(plot.panels[p], left, y, kPanelWidth, kOnWhite);
      body += drawing.text();
      row_height = std::max(row_height, drawing.height());
      width = std::max(width, left + kPanelWidth);
    }
    y += row_height;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" "
      "height=\"100%\" fill=\"#fff\"/>\n{2}</svg>\n",
      width, y, body);
}

std::string described(const Panel& panel) {
  std::string text = panel.y_label;
  if (!panel.x_label.empty()) text += " over " + panel.x_label;
  for (const Series& series : panel.series) {
    Extent y;
    for (const double value : series.y) y.add(value, false);
    if (y.low > y.high) continue;
    text += fmt::format("; {} from {:.3g} to {:.3g}", series.name.empty() ? "values" : series.name,
                        y.low, y.high);
  }
  for (const Panel::Level& level : panel.levels)
    text += fmt::format("; {} at {:.3g}", level.name, level.y);
  return text + ".";
}

std::string inline_svg(const Panel& panel, const std::string& id, bool is_wide) {
  const double width = is_wide ? 2 * kPanelWidth : kPanelWidth;
  Drawing drawing(panel, 0, 0, width, kOnAnyPage);
  const std::string body = drawing.text();
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"{0}-title "
      "{0}-desc\" "
      "viewBox=\"0 0 {1:.0f} {2:.0f}\" font-family=\"inherit\" font-size=\"11\" "
      "fill=\"currentColor\">\n<title id=\"{0}-title\">{3}</title>\n<desc "
      "id=\"{0}-desc\">{4}</desc>\n{5}</svg>\n",
      escape_markup(id), width, drawing.height(), escape_markup(panel.title),
      escape_markup(described(panel)), body);
}

}  // namespace ramp
