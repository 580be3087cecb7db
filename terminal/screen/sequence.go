package screen

// obey carries out a control sequence. What is not here moves and writes nothing: colours, reports, keyboard modes.
func (s *Screen) obey(c byte, p *parser) {
	if p.private != 0 {
		if p.private == '?' && (c == 'h' || c == 'l') {
			for i := range min(p.count+1, mostParams) {
				s.mode(p.params[i], c == 'h')
			}
		}
		if p.private == '?' && c == 'J' {
			s.erase(p.params[0])
		}
		if p.private == '?' && c == 'K' {
			s.eraseLine(p.params[0])
		}
		return
	}
	g := s.on
	n := p.param(0, 1)
	switch c {
	case 'A':
		g.up(n)
	case 'B', 'e':
		g.down(s, n)
	case 'C', 'a':
		g.x = min(g.x+n, s.furthest())
	case 'D':
		g.x = max(min(g.x, s.furthest())-n, 0)
	case 'E':
		g.x = 0
		g.down(s, n)
	case 'F':
		g.x = 0
		g.up(n)
	case 'G', '`':
		g.x = min(n-1, s.furthest())
	case 'd':
		g.y = min(n-1, s.rows-1)
	case 'H', 'f':
		g.y, g.x = min(n-1, s.rows-1), min(p.param(1, 1)-1, s.furthest())
	case 'J':
		s.erase(p.params[0])
	case 'K':
		s.eraseLine(p.params[0])
	case 'L':
		s.within(s.scrollDown, n)
		g.x = 0
		g.trim()
	case 'M':
		s.within(s.scrollUp, n)
		g.x = 0
		g.trim()
	case 'P':
		g.line(s).remove(g.x, n)
	case '@':
		g.line(s).insert(g.x, n, s.width())
	case 'X':
		g.line(s).blank(g.x, g.x+n)
	case 'S':
		s.scrollUp(n)
		g.trim()
	case 'T':
		s.scrollDown(n)
		g.trim()
	case 'b':
		for range min(n, s.width(), mostCols) {
			if g.last > 0 {
				s.put(g.last)
			}
		}
	case 'r':
		top, bottom := p.param(0, 1)-1, min(p.param(1, s.rows), s.rows)-1
		if top < bottom {
			g.top, g.bottom, g.x, g.y = top, bottom, 0, 0
		}
	case 's':
		g.save()
	case 'u':
		g.restore(s)
	}
}

// furthest is the last column that the cursor can be sent to.
func (s *Screen) furthest() int { return s.width() - 1 }

func (g *grid) up(n int) {
	least := 0
	if g.y >= g.top {
		least = g.top
	}
	g.y = max(g.y-n, least)
}

func (g *grid) down(s *Screen, n int) {
	most := s.rows - 1
	if g.y <= g.bottom {
		most = g.bottom
	}
	g.y = min(g.y+n, most)
}

func (g *grid) save() {
	g.saved.x, g.saved.y, g.saved.line, g.saved.set = g.x, g.y, g.boxes, g.set
}

func (g *grid) restore(s *Screen) {
	g.x, g.y, g.boxes, g.set = min(g.saved.x, s.width()), min(g.saved.y, s.rows-1), g.saved.line, g.saved.set
}

// mode switches what matters to text: the other screen, and breaking lines.
func (s *Screen) mode(n int, on bool) {
	switch n {
	case 7:
		s.on.nowrap = !on
	case 47, 1047:
		s.useAlt(on)
	case 1048:
		if on {
			s.on.save()
		} else {
			s.on.restore(s)
		}
	case 1049:
		if on && s.on == &s.main {
			s.main.save()
			s.useAlt(true)
		} else if !on && s.on == &s.alt {
			s.useAlt(false)
			s.main.restore(s)
		}
	}
}

// useAlt changes between the screens. The other one begins empty, and what was on it is gone when it is left.
func (s *Screen) useAlt(on bool) {
	if on == (s.on == &s.alt) {
		return
	}
	s.alt.reset(s)
	s.altText = ""
	if on {
		s.alt.x, s.alt.y = s.main.x, s.main.y
		s.on = &s.alt
		return
	}
	s.on = &s.main
}

// erase wipes a part of the screen: 0 from the cursor on, 1 up to it, 2 all of it. What has scrolled off stays: it was
// printed, and nobody drew over it.
func (s *Screen) erase(which int) {
	g := s.on
	from, to := 0, len(g.lines)
	switch which {
	case 0:
		s.eraseLine(0)
		from = g.y + 1
	case 1:
		s.eraseLine(1)
		to = min(g.y, to)
	case 2:
	default:
		return
	}
	for y := from; y < to; y++ {
		g.lines[y].cut(0)
		g.lines[y].wrapped = false
	}
	if which != 1 {
		g.trim()
	}
}

// eraseLine wipes a part of the cursor's line.
func (s *Screen) eraseLine(which int) {
	g := s.on
	if g.y >= len(g.lines) {
		return
	}
	l := g.lines[g.y]
	switch which {
	case 0:
		l.cut(g.x)
		l.wrapped = false
	case 1:
		l.blank(0, g.x+1)
	case 2:
		l.cut(0)
		l.wrapped = false
	}
}
