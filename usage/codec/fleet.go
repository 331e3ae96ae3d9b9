package codec

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"time"
)

// Fleet is what is kept of a workload that an HPA scales.
type Fleet struct {
	// Step is the length of the steps, whole minutes. An hour has a whole number of them.
	Step time.Duration
	// At is the end of the newest hour with known steps, in minutes since 1970. No time in it is later.
	At int64
	// Known counts the steps of which the means are known, indexed by resource.
	Known [2]KnownSteps
	// Pods has the means of the usage of whole pods. It is also that of the container Sole, if the pods have only one.
	Pods Means
	Sole string
	// Containers have means of their own, if pods have several.
	Containers []ContainerMeans
}

// ContainerMeans are the means of one container.
type ContainerMeans struct {
	Name string
	Means
}

// KnownSteps counts known steps by hour since 1970. The first count is that of the hour First.
type KnownSteps struct {
	First  int64
	Counts []uint8
}

// Of returns the means of a container, or of whole pods without a name; nil: none are known.
func (f *Fleet) Of(container string) *Means {
	if container == "" || len(f.Containers) == 0 && container == f.Sole {
		return &f.Pods
	}
	for i := range f.Containers {
		if f.Containers[i].Name == container {
			return &f.Containers[i].Means
		}
	}
	return nil
}

// Has reports whether the means are those of pods with these containers.
func (f *Fleet) Has(containers []string) bool {
	missing := slices.ContainsFunc(containers[:min(len(containers), MostFleetContainers)], func(name string) bool { return f.Of(name) == nil })
	others := slices.ContainsFunc(f.Containers, func(of ContainerMeans) bool { return !slices.Contains(containers, of.Name) })
	return !missing && !others
}

// Each visits all means.
func (f *Fleet) Each(visit func(*Means)) {
	visit(&f.Pods)
	for i := range f.Containers {
		visit(&f.Containers[i].Means)
	}
}

// Split gives the only container so far means of its own, because pods have several.
func (f *Fleet) Split() {
	if len(f.Containers) == 0 && f.Sole != "" {
		f.Containers = append(f.Containers, ContainerMeans{f.Sole, f.Pods.Clone()})
	}
	f.Sole = ""
}

// Container returns the means of a container for writing, which begin at a minute if they are new; 0: all are known. It
// returns nil if there are too many containers.
func (f *Fleet) Container(name string, since int64) *Means {
	if known := f.Of(name); known != nil && known != &f.Pods {
		return known
	}
	if len(f.Containers) >= MostFleetContainers {
		return nil
	}
	f.Containers = append(f.Containers, ContainerMeans{name, Means{Since: since}})
	return &f.Containers[len(f.Containers)-1].Means
}

// Merge adds the means of another fleet, but not its known steps.
func (f *Fleet) Merge(other Fleet, now int64) {
	empty := f.Sole == "" && len(f.Containers) == 0
	if empty {
		f.Sole = other.Sole
	}
	if f.Sole != other.Sole || len(other.Containers) > 0 {
		f.Split()
		other.Split()
	}
	for i := range other.Containers {
		if of := f.Container(other.Containers[i].Name, 0); of != nil {
			of.Merge(&other.Containers[i].Means, now)
		}
	}
	f.Pods.Merge(&other.Pods, now)
}

const (
	// MostFleetHours is how far back a Fleet reaches: eight days, so that each hour of a week is known although the
	// newest is not complete.
	MostFleetHours = 8 * 24
	// MostFleetContainers bounds the containers of a Fleet that have means of their own.
	MostFleetContainers = 8
	// MostFleet is the maximum size of the means of one container in a packed Fleet.
	MostFleet = 4096

	fleetVersion = 1
	// mostFleetName is the maximum length of a container's name, mostFleetBody that of the unpacked bytes.
	mostFleetName = 253
	mostFleetBody = 64 << 10
	// oldestTime is how long before Fleet.At a time may be, in minutes.
	oldestTime = (MostFleetHours + 1) * 60
)

// PackFleet packs a fleet into at most most bytes. If it takes more, ranges are merged, which makes them wider but not
// wrong. It returns nil if there is nothing to pack, or no room even for one range.
func PackFleet(f Fleet, most int) []byte {
	if len(f.Known[0].Counts)+len(f.Known[1].Counts) == 0 {
		return nil
	}
	packed := f.pack()
	for len(packed) > most {
		if f.Pods.Len() <= 1 && len(f.Containers) == 0 {
			return nil
		}
		f.Pods = f.Pods.Clone()
		f.Pods.shrink(f.Pods.Len()*3/4, f.At)
		f.Containers = slices.Clone(f.Containers)
		for i := range f.Containers {
			of := &f.Containers[i]
			of.Means = of.Clone()
			of.shrink(of.Len()*3/4, f.At)
		}
		f.Containers = slices.DeleteFunc(f.Containers, func(of ContainerMeans) bool { return of.Len() == 0 })
		packed = f.pack()
	}
	return packed
}

// pack writes the version, the body compressed, and a checksum. The body has the step in minutes, the time At, the
// known steps of each resource, the name Sole, the means of pods, the number of containers, and the name and the means
// of each. Means are Since, the number of ranges, and the fields of each. Times are minutes before At.
func (f Fleet) pack() []byte {
	body := binary.AppendUvarint(nil, uint64(f.Step/time.Minute))
	body = binary.AppendUvarint(body, uint64(f.At))
	for _, known := range f.Known {
		body = binary.AppendUvarint(body, uint64(known.First))
		body = binary.AppendUvarint(body, uint64(len(known.Counts)))
		body = append(body, known.Counts...)
	}
	body = appendName(body, f.Sole)
	body = f.Pods.append(body, f.At)
	body = binary.AppendUvarint(body, uint64(len(f.Containers)))
	for i := range f.Containers {
		body = appendName(body, f.Containers[i].Name)
		body = f.Containers[i].append(body, f.At)
	}
	out := append([]byte{fleetVersion}, deflate(body)...)
	return binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

func appendName(to []byte, name string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(name))), name...)
}

// append the ranges.
func (m *Means) append(to []byte, at int64) []byte {
	since := uint64(0)
	if m.Since > 0 {
		since = uint64(min(max(0, at-m.Since), oldestTime)) + 1
	}
	to = binary.AppendUvarint(to, since)
	to = binary.AppendUvarint(to, uint64(len(m.ranges)))
	for i := range m.ranges {
		of := &m.ranges[i]
		for _, n := range [...]uint16{of.of >> 15, of.of & mostPods, of.ready, of.low, of.high - of.low} {
			to = binary.AppendUvarint(to, uint64(n))
		}
		for _, t := range [...]uint16{of.seen, of.lowAt, of.highAt} {
			to = binary.AppendUvarint(to, uint64(min(at-minuteOf(t, at), oldestTime)))
		}
	}
	return to
}

// UnpackFleet reads the result of PackFleet. The bytes come from the API server, where a user may have changed them:
// anything that PackFleet does not write is an error, never a panic.
func UnpackFleet(packed []byte) (Fleet, error) {
	if len(packed) > 0 && packed[0] != fleetVersion {
		return Fleet{}, errVersion
	}
	const sum = 4
	if len(packed) < 1+sum {
		return Fleet{}, errBroken
	}
	end := len(packed) - sum
	if crc32.ChecksumIEEE(packed[:end]) != binary.LittleEndian.Uint32(packed[end:]) {
		return Fleet{}, errBroken
	}
	body, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed[1:end])), mostFleetBody+1))
	if err != nil || len(body) > mostFleetBody {
		return Fleet{}, errBroken
	}
	r := fleetReader{from: bytes.NewReader(body)}
	f := r.fleet()
	if r.broken || r.from.Len() > 0 {
		return Fleet{}, errBroken
	}
	return f, nil
}

// fleetReader reads numbers. After the first one that is out of bounds, all are 0.
type fleetReader struct {
	from   *bytes.Reader
	broken bool
}

// number reads a number of at least least and at most most.
func (r *fleetReader) number(least, most int64) int64 {
	n, err := binary.ReadUvarint(r.from)
	r.broken = r.broken || err != nil || n > uint64(most) || int64(n) < least
	if r.broken {
		return 0
	}
	return int64(n)
}

func (r *fleetReader) bytes(most int64) []byte {
	out := make([]byte, r.number(0, most))
	_, err := io.ReadFull(r.from, out)
	r.broken = r.broken || err != nil
	return out
}

// latest is the year 4000, in minutes since 1970.
const latest = 2030 * 365 * 24 * 60

func (r *fleetReader) fleet() (f Fleet) {
	f.Step = time.Duration(r.number(1, 60)) * time.Minute
	if f.Step == 0 || time.Hour%f.Step != 0 {
		r.broken = true
		return f
	}
	f.At = r.number(0, latest)
	for i := range f.Known {
		known := &f.Known[i]
		known.First = r.number(0, latest/60)
		known.Counts = r.bytes(MostFleetHours + 2)
		first, end := known.First, known.First+int64(len(known.Counts))
		r.broken = r.broken || len(known.Counts) > 0 && (first < f.At/60-MostFleetHours-2 || end > f.At/60+1)
		for _, n := range known.Counts {
			r.broken = r.broken || time.Duration(n) > time.Hour/f.Step
		}
	}
	f.Sole = string(r.bytes(mostFleetName))
	f.Pods = r.means(f.At)
	for range r.number(0, MostFleetContainers) {
		of := ContainerMeans{Name: string(r.bytes(mostFleetName)), Means: r.means(f.At)}
		r.broken = r.broken || of.Name == "" || slices.ContainsFunc(f.Containers, func(c ContainerMeans) bool { return c.Name == of.Name })
		f.Containers = append(f.Containers, of)
	}
	return f
}

func (r *fleetReader) means(at int64) (m Means) {
	if since := r.number(0, oldestTime+1); since > 0 {
		m.Since = at - since + 1
	}
	count := r.number(0, MostMeans)
	m.ranges = make([]meanRange, 0, count)
	for range count {
		of := meanRange{of: uint16(r.number(0, 1)) << 15}
		of.of |= uint16(r.number(0, mostPods))
		of.ready = uint16(r.number(0, mostPods))
		low := r.number(0, 1<<16-2)
		of.low, of.high = uint16(low), uint16(low+r.number(1, 1<<16-1-low))
		for _, t := range []*uint16{&of.seen, &of.lowAt, &of.highAt} {
			*t = uint16(at - r.number(0, oldestTime))
		}
		n := len(m.ranges)
		r.broken = r.broken || n > 0 && (compareRanges(&m.ranges[n-1], &of) >= 0 || m.ranges[n-1].overlaps(&of))
		if r.broken {
			return m
		}
		m.ranges = append(m.ranges, of)
	}
	return m
}

// Highest is the greatest mean of a resource; 0 without any.
func (m *Means) Highest(memory bool) (highest float64) {
	for i := range m.ranges {
		if of := &m.ranges[i]; of.of>>15 == 1 == memory {
			highest = max(highest, meanOf(of.high))
		}
	}
	return highest
}

// Add counts a step of an hour, of which at most `most` are counted.
func (k *KnownSteps) Add(hour int64, most int) {
	if len(k.Counts) == 0 {
		k.First = hour
	}
	for ; hour < k.First; k.First-- {
		k.Counts = slices.Insert(k.Counts, 0, 0)
	}
	for hour >= k.First+int64(len(k.Counts)) {
		k.Counts = append(k.Counts, 0)
	}
	k.Counts[hour-k.First] = uint8(min(int(k.Counts[hour-k.First])+1, most))
}

// Of returns the count of an hour.
func (k *KnownSteps) Of(hour int64) int {
	if i := hour - k.First; i >= 0 && i < int64(len(k.Counts)) {
		return int(k.Counts[i])
	}
	return 0
}

// Keep drops the hours before first and after last, and lowers the count of the last one to at most most.
func (k *KnownSteps) Keep(first, last int64, most int) {
	if gone := min(first-k.First, int64(len(k.Counts))); gone > 0 {
		k.Counts, k.First = slices.Delete(k.Counts, 0, int(gone)), k.First+gone
	}
	k.Counts = k.Counts[:max(0, min(int64(len(k.Counts)), last-k.First+1))]
	if last-k.First+1 == int64(len(k.Counts)) && len(k.Counts) > 0 {
		k.Counts[len(k.Counts)-1] = min(k.Counts[len(k.Counts)-1], uint8(most))
	}
}

// Or returns the greater count of each hour.
func (k *KnownSteps) Or(other KnownSteps) KnownSteps {
	out := KnownSteps{k.First, slices.Clone(k.Counts)}
	for i, count := range other.Counts {
		for hour := other.First + int64(i); out.Of(hour) < int(count); {
			out.Add(hour, int(count))
		}
	}
	return out
}
