package e2e

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/test/cluster"
)

var onHostile = flag.Bool("faults", false, "run the stories of container runtimes that spoil resizes")

// hostileTest has a process and a cluster for itself where it is asked for.
const hostileTest = "TestHostileRuntimes"

// vpaTest has the same cluster for itself.
const vpaTest = "TestVPAWithHostileRuntimes"

// spoiling is the cluster of TestHostileRuntimes: between its kubelets and their runtimes is somebody who spoils resizes.
func spoiling() installation {
	return installation{options: cluster.Options{CRIProxy: true, VPA: *onVPA}, settings: embeddedSettings}
}

// TestHostileRuntimes: a runtime refuses resizes, does half of them, does none and says that it did, or is late. No pod is
// left harmed, and what is tried again is tried less and less often. It shows a table.
func TestHostileRuntimes(t *testing.T) {
	if !*onHostile {
		t.Skip("-faults asks for it (make test-faults)")
	}
	alone(t, spoiled)
}

// spoiledStory is a resize from one size to another that a runtime spoils.
type spoiledStory struct {
	name     string
	fault    cluster.Fault
	from, to size
	// result and reason are how it is told in the end, spec what the pod says then, and real what its cgroup does.
	result, reason string
	spec, real     size
}

const reverted, kept = "Reverted", "Success"

// spoiledStories are the same whoever resizes.
func spoiledStories() []spoiledStory {
	// Its limits stop at maxAllowed, one unit above the requests.
	grown := size{cpu: "90m", memory: "160Mi", cpuLimit: "91m", memoryLimit: "161Mi"}
	halfLowered := size{cpu: tight.cpu, cpuLimit: tight.cpuLimit, memory: wide.memory, memoryLimit: wide.memoryLimit}
	halfGrown := size{cpu: grown.cpu, cpuLimit: grown.cpuLimit, memory: tight.memory, memoryLimit: tight.memoryLimit}
	return []spoiledStory{
		{"lowered, refused", cluster.Fault{Kind: "fail"}, wide, tight, reverted, "ActuationError", wide, wide},
		{"raised, refused", cluster.Fault{Kind: "fail"}, tight, grown, reverted, "ActuationError", tight, tight},
		{"lowered, late", cluster.Fault{Kind: "late", Seconds: 40}, wide, tight, kept, "", tight, tight},
		{"raised, late", cluster.Fault{Kind: "late", Seconds: 40}, tight, grown, kept, "", grown, grown},
		{"lowered by half", cluster.Fault{Kind: "half"}, wide, tight, kept, "Drift", tight, halfLowered},
		{"raised by half", cluster.Fault{Kind: "half"}, tight, grown, kept, "Drift", grown, halfGrown},
		{"lowered, they say", cluster.Fault{Kind: "lie"}, wide, tight, kept, "Drift", tight, wide},
		{"raised, they say", cluster.Fault{Kind: "lie"}, tight, grown, kept, "Drift", grown, tight},
	}
}

func spoiled(t *testing.T) {
	table := &faultTable{}
	t.Run("faults", func(t *testing.T) {
		for _, s := range spoiledStories() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				table.add(s.tell(t, s.namespace()))
			})
		}
	})
	t.Log(table)
}

// spoiledFor is how long such a resize may take to end: two minutes until what the runtime reports counts as all there will
// be, a watch, and what a busy machine adds.
const spoiledFor = 8 * time.Minute

func (s spoiledStory) namespace() string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(s.name)
}

func (s spoiledStory) tell(t *testing.T, ns string) faultRow {
	ctx := t.Context()
	namespace(ctx, t, ns, true)
	d, p := started(t, ns, 1, idle(s.from))
	require.NoError(t, env.cluster.SpoilResizes(p, "app", s.fault))
	auto(t, d, s.to)
	eventually(t, "it is tried", func() error { return tried(ctx, d) })
	begun := time.Now()
	within(t, spoiledFor, "it ends", func() error { return told(ctx, d, s.result, s.reason) })
	took := time.Since(begun)
	eventually(t, "the pod shows it", func() error { return s.shown(t, p) })
	require.NoError(t, hasGrant(p, s.real))
	rec, err := recommendation(ctx, d)
	require.NoError(t, err)
	pausedPodKeepsSize := s.result == kept && s.reason == ""
	assert.Equal(t, pausedPodKeepsSize, len(rec.Status.Verified) > 0, "what a runtime does not do is not kept: new pods are not born with it")
	assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
	return faultRow{fault: s.name, ended: s.result, took: took, harmed: int(p.Status.ContainerStatuses[0].RestartCount)}
}

// shown: the spec asks for the size that was sent last, and the status says what the container really has.
func (s spoiledStory) shown(t *testing.T, p *corev1.Pod) error {
	if err := see(t, p); err != nil {
		return err
	}
	spec, real := sizeOf(p.Spec.Containers[0].Resources), sizeOf(*p.Status.ContainerStatuses[0].Resources)
	if spec != s.spec || real.cpuLimit != s.real.cpuLimit || real.memoryLimit != s.real.memoryLimit {
		return fmt.Errorf("the spec is %v, and real %v", spec, real)
	}
	return nil
}

// tried: a resize of the workload was begun.
func tried(ctx context.Context, d *appsv1.Deployment) error {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	if len(rec.Status.Records)+len(rec.Status.History) == 0 {
		return fmt.Errorf("nothing was resized; conditions %v", rec.Status.Conditions)
	}
	return nil
}

// faultTable is what became of the stories.
type faultTable struct {
	mutex sync.Mutex
	rows  []faultRow
}

type faultRow struct {
	fault, ended string
	took         time.Duration
	harmed       int
}

func (f *faultTable) add(row faultRow) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.rows = append(f.rows, row)
}

func (f *faultTable) String() string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	slices.SortFunc(f.rows, func(a, b faultRow) int { return strings.Compare(a.fault, b.fault) })
	text := "\n| fault | ends | pods harmed | after |\n|---|---|---|---|\n"
	for _, r := range f.rows {
		text += fmt.Sprintf("| %s | %s | %d | %s |\n", r.fault, r.ended, r.harmed, r.took.Round(time.Second))
	}
	return text
}
