// Package traces keeps the steps that explain recommendations, packed and within a bound: the caches of the operator drop them
// (package trim), and the web page shows them. A recommendation takes some hundred bytes here.
//
// Before is the transform of a cache that sees each object while it is whole; Of returns the steps of a cached object.
package traces

import (
	"bytes"
	"compress/flate"
	"container/list"
	"encoding/json"
	"io"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
)

// mostSteps is more than the steps of 64 containers take as JSON, in bytes. Where they take more, none is kept.
const mostSteps = 256 << 10

// Store keeps the steps of the recommendations that were seen last. Its methods may be called at the same time.
type Store struct {
	most int

	mutex sync.Mutex
	// kept holds entries by UID, order the same from the oldest to the newest, bytes what they take.
	kept  map[types.UID]*list.Element
	order *list.List
	bytes int
	// packer and packed are used for one entry after the other: a packer takes a MiB.
	packer *flate.Writer
	packed bytes.Buffer
}

// entry holds the steps of one recommendation of one generation. packed is nil where they take too much, so that this is
// found out once.
type entry struct {
	uid        types.UID
	generation int64
	packed     []byte
}

// overhead is what an entry takes beside its packed bytes.
const overhead = 192

func (e entry) bytes() int { return len(e.packed) + overhead }

// New makes a Store of at most that many bytes.
func New(most int) *Store {
	return &Store{most: most, kept: map[types.UID]*list.Element{}, order: list.New()}
}

// Before returns a transform that keeps the steps of each recommendation, and then transforms it.
func (s *Store) Before(transform func(any) (any, error)) func(any) (any, error) {
	return func(o any) (any, error) {
		if rec, ok := o.(*v1alpha1.AttuneRecommendation); ok {
			s.keep(rec)
		}
		return transform(o)
	}
}

// keep the steps of a recommendation, unless those of its generation are kept. The oldest entries make room: they are
// those of objects that are gone, or of more objects than there is room for.
func (s *Store) keep(rec *v1alpha1.AttuneRecommendation) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if known := s.kept[rec.UID]; known != nil {
		if known.Value.(entry).generation == rec.Generation {
			return
		}
		s.drop(known)
	}
	if !slices.ContainsFunc(rec.Spec.Containers, func(c v1alpha1.ContainerTarget) bool { return len(c.Steps) > 0 }) {
		return
	}
	made := entry{rec.UID, rec.Generation, s.pack(rec)}
	for s.order.Len() > 0 && s.bytes+made.bytes() > s.most {
		s.drop(s.order.Front())
	}
	s.kept[rec.UID] = s.order.PushBack(made)
	s.bytes += made.bytes()
}

func (s *Store) drop(at *list.Element) {
	gone := s.order.Remove(at).(entry)
	delete(s.kept, gone.uid)
	s.bytes -= gone.bytes()
}

// pack returns the steps of the containers, in their order; nil where they are too many.
func (s *Store) pack(rec *v1alpha1.AttuneRecommendation) []byte {
	steps := make([][]v1alpha1.Step, len(rec.Spec.Containers))
	for i, c := range rec.Spec.Containers {
		steps[i] = c.Steps
	}
	text, err := json.Marshal(steps)
	if err != nil || len(text) > mostSteps {
		return nil
	}
	if s.packed.Reset(); s.packer == nil {
		s.packer, err = flate.NewWriterDict(&s.packed, flate.DefaultCompression, []byte(usual))
	} else {
		s.packer.Reset(&s.packed)
	}
	if err != nil {
		return nil
	}
	if _, err = s.packer.Write(text); err != nil || s.packer.Close() != nil {
		return nil
	}
	return bytes.Clone(s.packed.Bytes())
}

// Of returns a recommendation with the steps that were kept of its generation. It is a copy that shares everything but
// its containers. false: the steps are not kept, and the object is returned as it is. A nil Store keeps none.
func (s *Store) Of(rec *v1alpha1.AttuneRecommendation) (*v1alpha1.AttuneRecommendation, bool) {
	steps := unpack(s.find(rec))
	if len(steps) != len(rec.Spec.Containers) {
		return rec, len(rec.Spec.Containers) == 0
	}
	whole := *rec
	whole.Spec.Containers = make([]v1alpha1.ContainerTarget, len(steps))
	for i, c := range rec.Spec.Containers {
		c.Steps = steps[i]
		whole.Spec.Containers[i] = c
	}
	return &whole, true
}

// find returns the packed steps of a recommendation; nil: they are not kept.
func (s *Store) find(rec *v1alpha1.AttuneRecommendation) []byte {
	if s == nil {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if known := s.kept[rec.UID]; known != nil && known.Value.(entry).generation == rec.Generation {
		return known.Value.(entry).packed // an entry is never changed
	}
	return nil
}

func unpack(packed []byte) (steps [][]v1alpha1.Step) {
	if packed == nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReaderDict(bytes.NewReader(packed), []byte(usual)), mostSteps))
	if err != nil || json.Unmarshal(text, &steps) != nil {
		return nil
	}
	return steps
}

// Bytes is what the entries take.
func (s *Store) Bytes() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.bytes
}

// usual is text that most traces have. What is packed with it is read with it, so it may change with any version.
const usual = `max of 1 h × usage exceeds that % of the time; kept at it falls after some hours within the cap of % a step no learned floor no bounds are set ` +
	`no minAllowed or maxAllowed applies confidence is full and needs no more margin no burst above the percentile overheadPercent of steps of history ` +
	`"},{"resource":"memory","name":"percentile","before":"0","after":"Mi","reason":"99th percentile of 2016 steps"},{"resource":"memory","name":"margin","before":"","after":"","reason":"` +
	`"},{"resource":"memory","name":"confidence","before":"","after":"","reason":""},{"resource":"memory","name":"floor","before":"","after":"","reason":"` +
	`"},{"resource":"memory","name":"bounds","before":"","after":"","reason":"no bounds are set"}],[{"resource":"cpu","name":"percentile","before":"0","after":"m","reason":"95th percentile of 2016 steps` +
	`"},{"resource":"cpu","name":"margin","before":"m","after":"m","reason":""},{"resource":"cpu","name":"burst","before":"m","after":"m","reason":""},{"resource":"cpu","name":"confidence","before":"m","after":"m","reason":"` +
	`"},{"resource":"cpu","name":"floor","before":"m","after":"m","reason":""},{"resource":"cpu","name":"bounds","before":"m","after":"m","reason":"no bounds are set"}`
