package screen

// grid is one of the two screens: its rows, as far down as something was, the cursor, and the region that scrolls.
type grid struct {
	lines       []*line
	x, y        int // x may be the width: the next character begins a row
	top, bottom int // of the region
	saved       struct {
		x, y int
		line [2]bool
		set  int
	}
	last   rune // the last character, for repeating
	nowrap bool
	boxes  [2]bool // whether the two character sets are the one with lines and corners
	set    int     // which is in use
}

func (g *grid) reset(s *Screen) { *g = grid{lines: g.lines[:0], bottom: s.rows - 1} }

// graphics says whether letters stand for lines and corners.
func (g *grid) graphics() bool { return g.boxes[g.set] }

// line is the row of the cursor.
func (g *grid) line(s *Screen) *line {
	for len(g.lines) <= g.y {
		g.grow()
	}
	return g.lines[g.y]
}

// grow adds a row at the end.
func (g *grid) grow() {
	if n := len(g.lines); n < cap(g.lines) {
		g.lines = g.lines[:n+1]
		if g.lines[n] != nil {
			g.lines[n].reset()
			return
		}
		g.lines = g.lines[:n]
	}
	g.lines = append(g.lines, new(line))
}

// feed moves down a row, and scrolls at the bottom.
func (s *Screen) feed() {
	g := s.on
	switch {
	case g.y == g.bottom:
		g.line(s)
		s.scrollUp(1)
	case g.y < s.rows-1:
		g.y++
	}
	g.line(s)
}

// scrollUp moves the region's rows up. Of the main screen, rows that leave at the very top are text for good.
func (s *Screen) scrollUp(n int) {
	g := s.on
	for n = min(n, s.rows); n > 0; n-- {
		for len(g.lines) <= g.bottom {
			g.grow()
		}
		gone := g.lines[g.top]
		if g == &s.main && g.top == 0 {
			s.leave(gone)
		}
		copy(g.lines[g.top:g.bottom], g.lines[g.top+1:g.bottom+1])
		gone.reset()
		g.lines[g.bottom] = gone
	}
}

// scrollDown moves the region's rows down; those that leave are lost.
func (s *Screen) scrollDown(n int) {
	g := s.on
	for n = min(n, s.rows); n > 0; n-- {
		for len(g.lines) <= g.bottom {
			g.grow()
		}
		gone := g.lines[g.bottom]
		copy(g.lines[g.top+1:g.bottom+1], g.lines[g.top:g.bottom])
		gone.reset()
		g.lines[g.top] = gone
	}
}

// within runs a scroll in the part of the region from the cursor on.
func (s *Screen) within(scroll func(int), n int) {
	g := s.on
	if g.y < g.top || g.y > g.bottom {
		return
	}
	top := g.top
	if g.y > 0 || g != &s.main { // rows that are deleted are no text, wherever they stood
		g.top = g.y
		scroll(n)
	} else {
		s.deleteTop(scroll, n)
	}
	g.top = top
}

// deleteTop is within for the top row of the main screen: what leaves there is lost like anywhere else.
func (s *Screen) deleteTop(scroll func(int), n int) {
	for i := range min(n, len(s.main.lines)) {
		l := s.main.lines[i]
		l.cut(0)
		l.shown, l.over, l.ended, l.lettered = 0, false, true, true
	}
	scroll(n)
}

// trim forgets empty rows at the end that the cursor has left.
func (g *grid) trim() {
	for len(g.lines) > g.y+1 && g.lines[len(g.lines)-1].len() == 0 {
		g.lines = g.lines[:len(g.lines)-1]
	}
}

// put writes a character where the cursor is.
func (s *Screen) put(r rune) {
	g := s.on
	if g.graphics() && r >= '`' && r <= '~' {
		r = boxes[r-'`']
	}
	w := width(r)
	if w == 0 {
		g.line(s).mark(g.x, r)
		return
	}
	most := s.width()
	if g.x+w > most {
		if g.nowrap || w > most {
			g.x = max(most-w, 0)
		} else {
			g.line(s).wrapped = true
			g.x = 0
			s.feed()
			g.line(s).wrapped = false
		}
	}
	if w > most {
		return
	}
	g.line(s).put(g.x, r, w)
	g.x += w
	g.last = r
}

// tab moves to the next stop. In text it stays a tab.
func (s *Screen) tab() {
	g := s.on
	most := s.width()
	to := min((g.x/8+1)*8, most)
	if l := g.line(s); g.x >= l.len() && to > g.x {
		l.put(g.x, '\t', to-g.x)
	}
	if s.cols > 0 {
		to = min(to, most-1)
	}
	g.x = max(to, g.x)
}
