package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

func init() { ctrl.SetLogger(logr.Discard()) }

// beginning of every world: a Monday.
var beginning = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// scheme of all worlds.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		panic(err)
	}
	if err := v1alpha1.AddToScheme(s); err != nil {
		panic(err)
	}
	return s
})

// world is a cluster with an operator and people. One goroutine plays it.
type world struct {
	// asking is held while the usage source answers.
	asking sync.Mutex
	seed   uint64
	plan   plan
	random *rand.Rand
	time   *timeline
	server *api.Server
	// people write without any link between.
	people *api.Client

	cluster  *cluster
	leader   *operator
	webhooks []*operator
	started  int

	faults *faults
	// before a call of the operator arrives; nil: nothing happens.
	before   func(api.Call)
	watching *watching
	told     *told
	lives    lives
	demands  map[string]demand // by namespace/app, and by namespace/pod for a pod that is not like its siblings
	starts   map[string]start  // by pod uid/container, of those that need more to start with
	noRights bool
	// noTargets: the operator may not write HPAs. targetsMiss is what happens to its writes of them; nil: nothing.
	noTargets   bool
	targetsMiss func(c api.Call, sent bool) error
	// follows judges the targets of HPAs; nil: it does not.
	follows *targetsFollow
	// kept: the policy of a recommendation says, or said last, autoRevert: false.
	kept map[types.NamespacedName]bool
	// wantedFrom is since when the usage of a workload is wanted as it is now.
	wantedFrom map[string]time.Time
	// refusals are the admission policies of actors that are in force.
	refusals []*refusal
	// joined is how many nodes came later, troubled those to which something happens.
	joined   int
	troubled map[string]bool

	// waiters are asked about each recommendation that is stored, as long as they answer that they still wait.
	waiters []func(*v1alpha1.AttuneRecommendation) bool
	// phases counts, for each phase, how often a record in it was part of a write.
	phases map[v1alpha1.RecordPhase]int

	violations []string
	// stepTook is how long the resize step of a world of steps.go took.
	stepTook time.Duration
	// doubted counts the decisions that a pass took for the last one's.
	doubted int
	// cpu is the processor's time that it took.
	cpu time.Duration
}

func newWorld(seed uint64, p plan) *world {
	t := &timeline{now: beginning}
	w := &world{seed: seed, plan: p, random: rand.New(rand.NewPCG(seed, 0x5eed)), time: t, told: &told{}, demands: map[string]demand{}, starts: map[string]start{}, kept: map[types.NamespacedName]bool{}, troubled: map[string]bool{}, phases: map[v1alpha1.RecordPhase]int{}}
	w.server = api.New(api.Options{Scheme: scheme(), Now: func() time.Time { return t.now }, Minor: p.Minor, NoResize: p.NoResize, Admit: w.admit, Validate: w.validate, Refuse: p.Refuse})
	w.people = w.server.As("people", nil)
	w.faults = newFaults(w)
	w.watching = newWatching(w)
	w.server.Journal.Heard = w.watching.wrote
	w.server.Watch(w.follow)
	w.cluster = newCluster(w)
	w.must(w.people.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}}))
	p.create(w)
	w.start()
	return w
}

func (w *world) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("seed %d at %s: %v", w.seed, w.time.now, err))
	}
}

// start an operator that leads.
func (w *world) start() {
	w.started++
	w.leader = newOperator(w, fmt.Sprintf("attune-%d", w.started), true)
	w.watching.disturbed("the operator started")
}

// bury an operator; another one takes its place a while later.
func (w *world) bury(o *operator) {
	o.kill()
	if w.leader != o {
		return
	}
	w.leader = nil
	w.watching.disturbed("the operator was killed")
	w.time.after(w.plan.Down, w.start)
}

// follow keeps what is told of pods, and wakes the cluster.
func (w *world) follow(e api.Event) {
	w.watching.changed(e)
	switch o := e.Object.(type) {
	case *v1alpha1.AttuneRecommendation:
		w.stored(o)
		return
	case *v1alpha1.AttunePolicy, *v1alpha1.AttuneClusterPolicy, *v1alpha1.AttuneDefaults, *v1alpha1.AttuneNamespaceDefaults:
		return
	case *corev1.Pod:
		of, known := w.demandOf(o)
		if e.Type == watch.Deleted {
			w.lives.end(string(o.UID), w.time.now)
		} else if known {
			w.lives.see(o, of, w.time.now)
		}
	}
	if w.cluster != nil {
		w.cluster.wake(50 * time.Millisecond)
	}
}

// appLabel names the workload of a pod.
const appLabel = "app"

func (w *world) demandOf(pod *corev1.Pod) (demand, bool) {
	d, known := w.demands[pod.Namespace+"/"+pod.Name]
	if !known {
		d, known = w.demands[pod.Namespace+"/"+pod.Labels[appLabel]]
	}
	return d, known
}

// pod as it is stored, shared; nil: there is none.
func (w *world) pod(namespace, name string) *corev1.Pod {
	o, _ := w.server.Peek(&corev1.Pod{}, types.NamespacedName{Namespace: namespace, Name: name}).(*corev1.Pod)
	return o
}

// pods that are there, shared.
func (w *world) pods() []*corev1.Pod {
	stored := w.server.Stored(&corev1.Pod{})
	all := make([]*corev1.Pod, len(stored))
	for i, o := range stored {
		all[i] = o.(*corev1.Pod)
	}
	return all
}

// throttled is how much of its need a container does not get for its limit.
func (w *world) throttled(namespace, name, container string) float64 {
	pod := w.pod(namespace, name)
	if pod == nil {
		return 0
	}
	of, known := w.demandOf(pod)
	if !known {
		return 0
	}
	cpu, _ := of.at(w.time.now, pod.CreationTimestamp.Time, name)
	for _, c := range pod.Spec.Containers {
		limit, limited := c.Resources.Limits[corev1.ResourceCPU]
		if c.Name == container && limited && cpu > limit.AsApproximateFloat64() {
			return min(1, 1-limit.AsApproximateFloat64()/cpu)
		}
	}
	return 0
}

// admit is the webhook, where there is one; without it pods are created as they are.
func (w *world) admit(pod *corev1.Pod) {
	if w.leader == nil || w.leader.dead || !w.plan.Seeds {
		return
	}
	raw, err := json.Marshal(pod)
	w.must(err)
	body := append([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"review","operation":"CREATE",`+
		`"kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"namespace":"`+pod.Namespace+`","object":`), raw...)
	body = append(body, "}}"...)
	answer, err := w.leader.seeds.Answer(body)
	w.must(err)
	var review admissionv1.AdmissionReview
	w.must(json.Unmarshal(answer, &review))
	if len(review.Response.Patch) == 0 {
		return
	}
	p, err := jsonpatch.DecodePatch(review.Response.Patch)
	w.must(err)
	after, err := p.Apply(raw)
	w.must(err)
	seeded := &corev1.Pod{}
	w.must(json.Unmarshal(after, seeded))
	*pod = *seeded
}

// validate a new pod by the admission policies of others.
func (w *world) validate(pod *corev1.Pod) error {
	if w.plan.Validate != nil {
		if err := w.plan.Validate(pod); err != nil {
			return err
		}
	}
	for _, r := range w.refusals {
		if err := r.of(pod); err != nil {
			return err
		}
	}
	return nil
}

// lagOf a watch: mostly next to nothing, sometimes long.
func (w *world) lagOf(string) time.Duration {
	lag := time.Duration(5+w.random.IntN(40)) * time.Millisecond
	if w.faults.lagging() {
		lag += time.Duration(w.random.Int64N(int64(w.plan.MostLag) + 1))
	}
	return lag
}

// ours are the objects that the operator writes.
func (w *world) ours() []client.Object {
	return slices.Concat(w.server.Stored(&v1alpha1.AttuneRecommendation{}), w.server.Stored(&v1alpha1.AttunePolicy{}), w.server.Stored(&v1alpha1.AttuneClusterPolicy{}))
}

// remembers are the things of the operator that may grow.
func (w *world) remembers() []any {
	if w.leader == nil {
		return nil
	}
	return []any{w.leader.policies, w.leader.workloads, w.leader.nodes}
}

// there is how many pods, nodes and recommendations there are.
func (w *world) there() int {
	return len(w.server.Stored(&corev1.Pod{})) + len(w.server.Stored(&corev1.Node{})) + len(w.server.Stored(&v1alpha1.AttuneRecommendation{}))
}

// violate notes that something does not hold.
func (w *world) violate(invariant, format string, args ...any) {
	if len(w.violations) < mostViolations {
		w.violations = append(w.violations, fmt.Sprintf("%s %s: %s", w.time.now.Format("01-02T15:04:05.000"), invariant, fmt.Sprintf(format, args...)))
	}
}

// mostViolations are told of a world; it ends with the last of them.
var mostViolations = 1

// spent is the processor's time of this thread.
func spent() time.Duration {
	const thisThread = 1
	var usage syscall.Rusage
	if err := syscall.Getrusage(thisThread, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// longest that a world may take of a processor's time; 0: as long as it likes.
var longest time.Duration

// run the world to its end.
func (w *world) run() []string {
	end := beginning.Add(w.plan.Length)
	w.time.every(time.Minute, func() bool {
		w.watching.tick()
		return true
	})
	w.plan.disturb(w)
	if w.plan.Script != nil {
		w.plan.Script(w)
	}
	began := spent()
	w.time.play(end, func() bool {
		if w.cpu = spent() - began; longest > 0 && w.cpu > longest {
			w.violate("fast", "the world takes longer than %s: %v", longest, w.watching.passes)
		}
		return len(w.violations) < mostViolations
	})
	w.watching.end()
	if phase := w.plan.Meets; phase != "" && w.phases[phase] == 0 && len(w.violations) == 0 {
		w.violate("the record is met", "no record was stored in phase %s: %v\n%s", phase, w.phases, w.describe("shop/deployment-web"))
	}
	return w.violations
}

// told keeps the newest events.
type told struct {
	lines []string
	count map[string]int
	// heard is called with each note; nil: nobody listens.
	heard func(note string)
}

func (t *told) Eventf(about, related runtime.Object, kind, reason, _, note string, args ...any) {
	if t.count == nil {
		t.count = map[string]int{}
	}
	t.count[reason]++
	name := ""
	if o, ok := about.(client.Object); ok {
		name = o.GetName()
	}
	if o, ok := related.(client.Object); ok {
		name = o.GetName() // The recommendation of a pod, whose name the note has.
	}
	if t.heard != nil {
		t.heard(fmt.Sprintf(note, args...))
	}
	t.lines = append(t.lines, name+" "+kind+" "+reason+" "+fmt.Sprintf(note, args...))
	if len(t.lines) > 400 {
		t.lines = slices.Clone(t.lines[200:])
	}
}

func (t *told) about(name string) string {
	var out []string
	for _, line := range t.lines {
		if strings.HasPrefix(line, name+" ") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
