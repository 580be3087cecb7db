package telemetry

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// mostSeries bounds the combinations of labels of one metric: what comes beyond counts under the value "other".
const mostSeries = 300

// mostLabels is how many labels a metric may have: so many fit a map's key without an allocation.
const mostLabels = 3

// values are those of a metric's labels, in their order.
type values [mostLabels]string

// metric is a counter, with bounds a histogram, and with read a gauge.
type metric struct {
	name   string // with dots, as OpenTelemetry writes names
	prom   string // as Prometheus does
	help   string
	unit   string // as OpenTelemetry writes units
	labels []string
	bounds []float64      // of a histogram's buckets, ascending
	read   func() float64 // a gauge is read when somebody looks

	mu     sync.Mutex
	series map[values]*series
}

// series is one combination of label values.
type series struct {
	values  values
	count   uint64
	sum     float64
	buckets []uint64 // one more than bounds
}

// The kinds of metric, as Prometheus names them.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

func (m *metric) kind() string {
	switch {
	case m.read != nil:
		return gauge
	case m.bounds != nil:
		return histogram
	}
	return counter
}

// add counts an observation. A counter counts n, a histogram one observation of n. It is on the path of every request,
// so it allocates for a combination's first observation only.
func (m *metric) add(n float64, of values) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.series[of]
	if s == nil {
		s = m.fresh(of)
	}
	s.sum += n
	s.count++
	if m.bounds != nil {
		at, _ := slices.BinarySearch(m.bounds, n)
		s.buckets[at]++
	}
}

// fresh begins a series, or finds the one of all that are too many.
func (m *metric) fresh(of values) *series {
	if len(m.series) >= mostSeries {
		for i := range m.labels {
			of[i] = "other"
		}
		if s := m.series[of]; s != nil {
			return s
		}
	}
	s := &series{values: of}
	if m.bounds != nil {
		s.buckets = make([]uint64, len(m.bounds)+1)
	}
	if m.series == nil {
		m.series = map[values]*series{}
	}
	m.series[of] = s
	return s
}

// all returns copies of the series, in order.
func (m *metric) all() []series {
	if m.read != nil {
		return []series{{sum: m.read()}}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]series, 0, len(m.series))
	for _, s := range m.series {
		c := *s
		c.buckets = slices.Clone(s.buckets)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b series) int { return slices.CompareFunc(a.values[:], b.values[:], cmp.Compare) })
	return out
}

// appendText appends the metric in Prometheus's text form.
func (m *metric) appendText(b []byte) []byte {
	all := m.all()
	if len(all) == 0 {
		return b
	}
	b = append(b, "# HELP "+m.prom+" "+helpText.Replace(m.help)+"\n# TYPE "+m.prom+" "+m.kind()+"\n"...)
	for _, s := range all {
		if m.bounds == nil {
			b = m.appendLine(b, "", s.values, "")
			b = append(appendNumber(b, s.sum), '\n')
			continue
		}
		var below uint64
		for i, n := range s.buckets {
			below += n
			le := "+Inf"
			if i < len(m.bounds) {
				le = strconv.FormatFloat(m.bounds[i], 'g', -1, 64)
			}
			b = m.appendLine(b, "_bucket", s.values, le)
			b = append(strconv.AppendUint(b, below, 10), '\n')
		}
		b = append(appendNumber(m.appendLine(b, "_sum", s.values, ""), s.sum), '\n')
		b = append(strconv.AppendUint(m.appendLine(b, "_count", s.values, ""), s.count, 10), '\n')
	}
	return b
}

// appendLine appends a sample's name and labels, and a blank.
func (m *metric) appendLine(b []byte, suffix string, of values, le string) []byte {
	b = append(b, m.prom+suffix...)
	comma := byte('{')
	label := func(name, value string) {
		b = append(b, comma)
		b = append(b, name+`="`+labelText.Replace(strings.ToValidUTF8(value, "\uFFFD"))+`"`...)
		comma = ','
	}
	for i, name := range m.labels {
		label(name, of[i])
	}
	if le != "" {
		label("le", le)
	}
	if comma == ',' {
		b = append(b, '}')
	}
	return append(b, ' ')
}

func appendNumber(b []byte, n float64) []byte { return strconv.AppendFloat(b, n, 'g', -1, 64) }

// The escapes of the text form.
var (
	helpText  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelText = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)
