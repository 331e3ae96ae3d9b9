package embedded

import (
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"attune.io/attune/usage"
	"attune.io/attune/usage/embedded/raw"
)

// reader turns an exposition into samples.
type reader struct {
	scraper *scraper
	target  *target
	node    string
	pods    map[Pod]bool
	now     int64
	batch   []scraped
	dropped map[usage.Drop]int
	// off is how far a sample's time was from ours, in milliseconds, where that is too far.
	off int64
	// nodeOf is the node that a pod is on, by the API server; empty: none.
	nodeOf func(Pod) (string, error)
	// placed is the pod that was looked up last: a kubelet reports a pod's series one after the other.
	placed struct {
		pod  Pod
		node string
		err  error
	}
}

// take a point of the exposition: as a sample, or dropped for a reason.
func (r *reader) take(p point) {
	if r.pods != nil && !r.wants(p.text) {
		return
	}
	if drop := usage.DropOf(p.value); drop != "" {
		r.drop(drop)
		return
	}
	if p.at == 0 {
		p.at = r.now
	}
	if off := p.at - r.now; off > future.Milliseconds() || off < -past.Milliseconds() {
		r.off = off
		r.drop(usage.DropClock)
		return
	}
	k := r.known(p)
	if k.drop != "" {
		r.drop(k.drop)
		return
	}
	r.batch = append(r.batch, scraped{k.series, raw.Sample{At: p.at, Value: p.value}})
}

// wants: the series of cAdvisor is one that is asked for.
func (r *reader) wants(text []byte) bool {
	all, known := r.pods[Pod{string(labelOf(text, "namespace")), string(labelOf(text, "pod"))}]
	switch {
	case known:
		return all || string(nameOf(text)) == waited
	case r.scraper.pressure:
		return ofNode(text)
	}
	return false
}

func (r *reader) drop(why usage.Drop) {
	if r.dropped == nil {
		r.dropped = map[usage.Drop]int{}
	}
	r.dropped[why]++
}

// clock is an error where all of a node's samples have impossible times. Single ones are those of containers
// that are gone.
func (r *reader) clock(path string) error {
	if len(r.batch) > 0 || r.off == 0 || r.pods != nil {
		return nil
	}
	return fmt.Errorf("%s: its samples are %s off our clock, more than %s", path, time.Duration(r.off)*time.Millisecond, past)
}

// known is the entry of a text: its series, or why it has none. A text that was seen before costs one look-up.
func (r *reader) known(p point) *known {
	k := r.target.known[string(p.text)]
	switch {
	case k == nil && len(r.target.known) >= maxSeries:
		return &known{drop: usage.DropFull}
	case k == nil:
		k = r.learn(p)
		r.target.known[string(p.text)] = k
	case k.unsure(r.target.round):
		r.check(k)
	}
	k.round = r.target.round
	return k
}

// learn a series from its text. Its node label is the node that was asked, whatever the kubelet says: where two nodes
// report one pod, there are two series, of which the highest counts.
func (r *reader) learn(p point) *known {
	var of labels.Labels
	p.labels(&of)
	if _, twice := of.HasDuplicateLabelNames(); twice {
		return &known{drop: usage.DropLabels}
	}
	k := &known{labels: labels.NewBuilder(of).Set("node", r.node).Labels()}
	r.check(k)
	return k
}

// check whether a series is of the node itself or of a pod that is on it by the API server: a kubelet may report no
// others. Where that cannot be looked up, the last answer stays.
func (r *reader) check(k *known) {
	k.checked = r.target.round
	pod := Pod{k.labels.Get("namespace"), k.labels.Get("pod")}
	if pod != (Pod{}) || k.labels.Get("container") != "" {
		node, err := r.placeOf(pod)
		if err == nil && node != r.node || err != nil && k.series == nil {
			k.drop = usage.DropElsewhere
			return
		}
	}
	k.drop = ""
	if k.series == nil {
		k.series = r.scraper.intern(k.labels)
		k.labels = k.series.labels
	}
}

// placeOf is the node of a pod; empty: none.
func (r *reader) placeOf(pod Pod) (string, error) {
	if r.placed.pod != pod {
		r.placed.pod = pod
		r.placed.node, r.placed.err = r.nodeOf(pod)
	}
	return r.placed.node, r.placed.err
}
