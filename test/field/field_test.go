// Package field keeps reports of users: of Kubernetes, and of attune and other right-sizers. Each file in reports/ says what
// happened, what must happen, and which tests show it. docs/field-reports.md is made from them.
//
// A report with a case is run here, in memory: usage goes through the filter of samples, the recommender and the seed into
// the patch of a new pod; an eviction case plays hours of reconciles of a Deployment and its admission. For tests on an API server or a cluster, this package checks that they exist; they run in the
// suites of their packages.
package field

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/usage"
	"attune.io/attune/webhook/pod"
)

var update = flag.Bool("update", false, "write docs/field-reports.md")

const document = "../../docs/field-reports.md"

// report is one file.
type report struct {
	ID        string   `json:"id"`
	Title     string   `json:"title"`
	Row       string   `json:"row"`
	Source    []string `json:"source"`
	Situation string   `json:"situation"`
	Input     string   `json:"input"`
	Before    string   `json:"before"`
	Must      string   `json:"must"`
	Tests     []shown  `json:"tests"`
	Case      *example `json:"case,omitempty"`
	// Eviction is a case of evictions.
	Eviction *eviction `json:"eviction,omitempty"`
	// Kill is a case of a termination.
	Kill *kill `json:"kill,omitempty"`
	// Running is a case of a resize of a running pod.
	Running *running `json:"running,omitempty"`
	// Guardrail is a case of settings of the observation.
	Guardrail *guardrail `json:"guardrail,omitempty"`
}

// shown names a test function of a package, by the package's folder.
type shown struct {
	Level   string `json:"level"`
	Package string `json:"package"`
	Test    string `json:"test"`
}

// example is a week of usage of one workload, and what must become of a new pod.
type example struct {
	Kind   v1alpha1.WorkloadKind   `json:"kind,omitempty"` // default: Deployment
	Policy v1alpha1.PolicySettings `json:"policy"`
	// VPA is a VerticalPodAutoscaler; its policy takes precedence over Policy.
	VPA *imported `json:"vpa,omitempty"`
	// Labels and Annotations of the pod template.
	Labels, Annotations map[string]string
	Pod                 corev1.PodSpec                      `json:"pod"`
	Usage               map[string]samples                  `json:"usage"`
	Status              v1alpha1.AttuneRecommendationStatus `json:"status,omitempty"`
	Nodes               nodes                               `json:"nodes,omitempty"`
	// Follows are the memory limits of the first container, one after the other, each in force for two days.
	Follows *follows `json:"follows,omitempty"`
	// HPA is a HorizontalPodAutoscaler that scales the workload.
	HPA *autoscalingv2.HorizontalPodAutoscalerSpec `json:"hpa,omitempty"`
	// HPAMeta are the name, marks and owners of the HPA. ScaledObject is the one of KEDA that creates it.
	HPAMeta      metav1.ObjectMeta `json:"hpaMeta,omitempty"`
	ScaledObject map[string]any    `json:"scaledObject,omitempty"`
	// LimitRange is the namespace's; the created pod must fit it.
	LimitRange []corev1.LimitRangeItem `json:"limitRange,omitempty"`
	// Quota is the hard part of the namespace's ResourceQuota, of which nothing is used.
	Quota  corev1.ResourceList `json:"quota,omitempty"`
	Expect expectation         `json:"expect"`
}

// follows is usage that is a share of the limit in force.
type follows struct {
	Share  float64
	Limits []resource.Quantity
}

// read sets the stored limits of a view, and the one in force.
func (f *follows) read(v *targets.View, container string) {
	const each = 48 * time.Hour
	last := len(f.Limits) - 1
	since := func(i int) time.Time { return now.Add(-each * time.Duration(last+1-i)) }
	v.History.Highest = func(_ string, r recommender.Resource) node.Span {
		return func(_, to time.Time) (recommender.Usage, bool) {
			i := last
			for i > 0 && to.Before(since(i)) {
				i--
			}
			return recommender.Usage(f.Share * f.Limits[i].AsApproximateFloat64()), r == recommender.Memory
		}
	}
	for i, limit := range f.Limits {
		v.Limits = map[string]targets.LimitInForce{container: {Limit: podview.AmountOf(recommender.Memory, limit), Since: since(i)}}
		v.Stored = targets.Desired(*v)
	}
}

// nodes are what is allocatable; empty: not known.
type nodes struct {
	// Largest is the largest node: no sample is far above it.
	Largest corev1.ResourceList
	// Bound is what a pod may request at most, where that is less: of a DaemonSet, the rest of its smallest node.
	Bound corev1.ResourceList
	// Own is the capacity of the node on which the measured pod runs, all the time and with the limits of the case; not set:
	// the pod is not in the cache any more, or its limits have changed.
	Own corev1.ResourceList
}

// samples are one amount each 5 minutes; Peak takes its place once, in the middle, or each Every steps, and the second half
// has Then.
type samples struct {
	Every               int
	CPU, Memory         resource.Quantity
	PeakCPU, PeakMemory *resource.Quantity
	ThenCPU, ThenMemory *resource.Quantity
}

// expectation of a new pod's first container.
type expectation struct {
	// Unchanged: the pod has the resources of its template.
	Unchanged bool `json:"unchanged,omitempty"`
	// Least and Most bound requests and limits, by paths such as requests.memory, or other/requests.memory of the container
	// other.
	Least, Most map[string]resource.Quantity
	// Absent are paths that are not set.
	Absent []string `json:"absent,omitempty"`
	// Target is the target of the HPA that follows the request of the created pod, in percent. Recommended is the one that a
	// user has to write together with the recommended request.
	Target, Recommended int32
	// Holds are reasons in the recommendation, by resource; Blocked are those of the admission.
	Holds, Blocked map[string]string
}

func read(t *testing.T) []report {
	t.Helper()
	files, err := filepath.Glob("reports/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all []report
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var r report
		require.NoError(t, yaml.UnmarshalStrict(text, &r), file)
		assert.Equal(t, strings.TrimSuffix(filepath.Base(file), ".yaml"), r.ID)
		all = append(all, r)
	}
	return all
}

// Each report is complete, and each test that it names exists.
func TestReportsAreComplete(t *testing.T) {
	for _, r := range read(t) {
		t.Run(r.ID, func(t *testing.T) {
			for _, text := range []string{r.Title, r.Row, r.Situation, r.Input, r.Before, r.Must} {
				assert.NotEmpty(t, text)
			}
			assert.NotEmpty(t, r.Source)
			for _, source := range r.Source {
				assert.Regexp(t, `^[\w.-]+/[\w.-]+#[0-9]+$`, source)
			}
			assert.True(t, r.Case != nil || r.Eviction != nil || r.Kill != nil || r.Running != nil || r.Guardrail != nil || len(r.Tests) > 0, "a case or a test shows the report")
			for _, s := range r.Tests {
				assert.Contains(t, []string{"memory", "apiserver", "cluster"}, s.Level)
				assert.Contains(t, testsOf(t, s.Package), s.Test, s.Package)
			}
		})
	}
}

// testsIn remembers the answers of testsOf: many reports name tests of one folder.
var testsIn = map[string][]string{}

// testsOf are the test functions in a folder of the project.
func testsOf(t *testing.T, folder string) (names []string) {
	t.Helper()
	if names, known := testsIn[folder]; known {
		return names
	}
	os.Getenv("ATTUNE_INPUTS") // the digest of what is read outside of this module, so that Go's test cache sees a change
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	testsIn[folder] = names
	return names
}

// now is when the pods of all cases are created.
var now = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// atTheTarget returns a week in which up to three pods used as much as their HPA scales at, and almost too little for as many; nothing with another setting than
// Retarget.
func (c *example) atTheTarget(settings policy.Settings, holds autoscale.Holds) func(string, recommender.Resource) autoscale.Past {
	return func(container string, r recommender.Resource) autoscale.Past {
		past, threshold := autoscale.Past{Since: now.Add(-7 * 24 * time.Hour), Until: now, Window: 7 * 24 * time.Hour}, 0.0
		for _, scale := range holds.Scales() {
			for i := range c.Pod.Containers {
				of := &c.Pod.Containers[i]
				if request := podview.AmountIn(r, of.Resources.Requests); scale.Resource == r && settings.Retargets(of.Name, r) && (container == "" || container == of.Name) {
					threshold += float64(cmp.Or(scale.Original, scale.Percent)) / 100 * float64(request)
				}
			}
		}
		if n := min(3, c.HPA.MaxReplicas-1); threshold > 0 && n > 0 {
			past.Spans = []replicas.Span{{Ready: n, Least: 1.16 * threshold * float64(n-1) / float64(n), Greatest: threshold, LeastAt: now.Unix(), GreatestAt: now.Unix()}}
		}
		return past
	}
}

// Each case becomes what its report says.
func TestCases(t *testing.T) {
	for _, r := range read(t) {
		if r.Case != nil {
			t.Run(r.ID, func(t *testing.T) { r.Case.run(t) })
		}
		if r.Eviction != nil {
			t.Run(r.ID, r.Eviction.run)
		}
		if r.Kill != nil {
			t.Run(r.ID, r.Kill.run)
		}
		if r.Running != nil {
			t.Run(r.ID+"/running", r.Running.run)
		}
		if r.Guardrail != nil {
			t.Run(r.ID, r.Guardrail.run)
		}
	}
}

func (c *example) run(t *testing.T) {
	if c.Kind == "" {
		c.Kind = v1alpha1.KindDeployment
	}
	c.VPA.over(t, &c.Policy)
	p := &v1alpha1.AttunePolicy{Spec: v1alpha1.AttunePolicySpec{TargetRef: v1alpha1.TargetRef{Kind: c.Kind}, PolicySettings: c.Policy}}
	p.Name, p.Namespace = "all", "shop"
	settings, err := policy.Resolve(nil, nil, p)
	require.NoError(t, err)
	template := &corev1.PodTemplateSpec{Spec: c.Pod}
	template.Labels, template.Annotations = c.Labels, c.Annotations
	w := workload.Workload{Identity: workload.Identity{Kind: c.Kind, Namespace: "shop", Name: "web"}, Template: template, Replicas: 3}
	largest := podview.Amounts(c.Nodes.Largest)
	most := usage.MostOn(float64(largest[recommender.CPU])/1000, float64(largest[recommender.Memory]))
	history := targets.History{Profiles: map[string]recommender.Profile{}, Implausible: map[string][2]recommender.Implausible{}}
	for name, s := range c.Usage {
		history.Profiles[name], history.Implausible[name] = s.read(c.facts(name), most)
	}
	bound := largest
	if c.Nodes.Bound != nil {
		bound = podview.Amounts(c.Nodes.Bound)
	}
	var scalers autoscale.Autoscalers
	if c.HPA != nil {
		c.HPA.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: string(c.Kind), Name: w.Name}
		scalers.HPAs = []autoscalingv2.HorizontalPodAutoscaler{{ObjectMeta: c.HPAMeta, Spec: *c.HPA}}
	}
	if c.ScaledObject != nil {
		scalers.ScaledObjects = []unstructured.Unstructured{{Object: c.ScaledObject}}
	}
	view := targets.View{Workload: w, Policy: p, Settings: settings, Now: now, Status: c.Status, History: history, Largest: bound}
	holds := scalers.Of(w)
	if settings.KeepsAnyReplicas() { // of three pods with the resources of the template
		scalers.MayRetarget = true
		holds = scalers.Of(w).Keep(targets.SizedNames(template, settings), nil, autoscale.Fleet{
			Keeps: settings.KeepsReplicas, Retargets: settings.Retargets, Original: targets.OriginalRequests(view), Read: true, Now: now,
			Pods: slices.Repeat([]*corev1.Pod{{Spec: c.Pod}}, 3), Past: c.atTheTarget(settings, holds),
		})
	}
	view.Blocked, view.Kept, view.Proposed, view.HPABindings = holds.On, holds.Kept, holds.Proposed, holds.Stored()
	if c.Follows != nil {
		c.Follows.read(&view, c.Pod.Containers[0].Name)
	}
	spec := targets.Desired(view)
	rec := &v1alpha1.AttuneRecommendation{Spec: spec, Status: c.Status}
	rec.Name, rec.Namespace = "deployment-web", "shop"

	text, err := json.Marshal(template)
	require.NoError(t, err)
	created := &pod.Pod{}
	require.NoError(t, json.Unmarshal(text, created))
	ranges := []*corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: c.LimitRange}}}
	ns := &pod.Namespace{Bounds: constraint.BoundsOf(ranges)}
	if c.Quota != nil {
		q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: c.Quota}, Status: corev1.ResourceQuotaStatus{Hard: c.Quota, Used: corev1.ResourceList{}}}
		for name := range c.Quota {
			q.Status.Used[name] = resource.Quantity{}
		}
		ns.Quotas = append(ns.Quotas, constraint.QuotaLeftOf(q))
	}
	d := pod.SeedPod(created, pod.Read(rec), ns, now)
	if d.Patch != nil {
		patch, err := jsonpatch.DecodePatch(d.Patch)
		require.NoError(t, err)
		text, err = patch.Apply(text)
		require.NoError(t, err, string(d.Patch))
	}
	out := &corev1.PodTemplateSpec{}
	require.NoError(t, json.Unmarshal(text, out))
	c.Expect.check(t, c.Pod.Containers[0].Resources, out.Spec, spec, d)
	c.Expect.checkTarget(t, holds.Follower(), out.Spec, spec)
	assert.Equal(t, podview.ClassOf(&corev1.Pod{Spec: c.Pod}), podview.ClassOf(&corev1.Pod{Spec: out.Spec}))
	c.fits(t, out.Spec)
}

// checkTarget checks the target of the HPA.
func (e *expectation) checkTarget(t *testing.T, f *autoscale.Follower, created corev1.PodSpec, spec v1alpha1.AttuneRecommendationSpec) {
	t.Helper()
	if e.Target > 0 {
		require.NotNil(t, f)
		var sum recommender.Amount
		for _, c := range created.Containers {
			sum += podview.AmountIn(recommender.CPU, c.Resources.Requests)
		}
		assert.Equal(t, e.Target, f.At(float64(sum)))
	}
	if e.Recommended > 0 {
		assert.Nil(t, f)
		require.Len(t, spec.HPABindings, 1)
		assert.Equal(t, e.Recommended, spec.HPABindings[0].RecommendedPercent)
	}
}

// facts are what is known about a container of the measured pod.
func (c *example) facts(name string) usage.Facts {
	i := slices.IndexFunc(c.Pod.Containers, func(c corev1.Container) bool { return c.Name == name })
	if c.Nodes.Own == nil || i < 0 {
		return usage.Facts{}
	}
	of := func(list corev1.ResourceList) usage.Most {
		return usage.Most{Cores: list.Cpu().AsApproximateFloat64(), Bytes: list.Memory().AsApproximateFloat64()}
	}
	created := now.Add(-30 * 24 * time.Hour).UnixMilli()
	return usage.Facts{Created: created, Node: of(c.Nodes.Own), Limit: of(c.Pod.Containers[i].Resources.Limits), LimitSince: created}
}

// fits checks a created pod by the LimitRange.
func (c *example) fits(t *testing.T, created corev1.PodSpec) {
	t.Helper()
	whole := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	add := func(to, amounts corev1.ResourceList) {
		for name, amount := range amounts {
			sum := to[name]
			sum.Add(amount)
			to[name] = sum
		}
	}
	for _, container := range created.Containers {
		add(whole.Requests, container.Resources.Requests)
		add(whole.Limits, container.Resources.Limits)
		for _, item := range c.LimitRange {
			if item.Type == corev1.LimitTypeContainer {
				assert.Nil(t, constraint.ViolationOf(item, container.Resources.Requests, container.Resources.Limits), container.Name)
			}
		}
	}
	for _, item := range c.LimitRange {
		if item.Type == corev1.LimitTypePod {
			assert.Nil(t, constraint.ViolationOf(item, whole.Requests, whole.Limits), "the pod")
		}
	}
}

// read is a week of the samples as a usage source gives them: those that cannot be true are missing, and those of the last
// day are counted.
func (s samples) read(facts usage.Facts, most usage.Most) (recommender.Profile, [2]recommender.Implausible) {
	const step = 5 * time.Minute
	const steps = int(7 * 24 * time.Hour / step)
	amount := func(i int, base resource.Quantity, peak, then *resource.Quantity) float64 {
		q := base
		if then != nil && i > steps/2 {
			q = *then
		}
		if peak != nil && (i == steps/2 || s.Every > 0 && i%s.Every == 0) {
			q = *peak
		}
		return q.AsApproximateFloat64()
	}
	all := make([]recommender.StepUsage, steps)
	var dropped [2]recommender.Implausible
	for i := range all {
		at := now.Add(time.Duration(i-steps) * step)
		values := [2]float64{amount(i, s.CPU, s.PeakCPU, s.ThenCPU), amount(i, s.Memory, s.PeakMemory, s.ThenMemory)}
		for _, r := range recommender.Resources {
			memory, unit := r == recommender.Memory, recommender.Usage(1000)
			if memory {
				unit = 1
			}
			drop, lastDay := facts.DropOf(usage.Sample{At: at.UnixMilli(), Value: values[r]}, memory, most, step), now.Sub(at) <= 24*time.Hour
			if of := &dropped[r]; lastDay && drop.Impossible() {
				of.Dropped++
				of.Of++
				of.Highest, of.Most = max(of.Highest, recommender.Usage(values[r])*unit), recommender.Usage(facts.Bound(drop, memory, most))*unit
				of.Bound = map[usage.Drop]recommender.Bound{usage.DropNode: recommender.OfNode, usage.DropLimit: recommender.OfLimit}[drop]
				if drop == usage.DropZero {
					of.Zeros++
				}
			} else if lastDay && drop == "" {
				of.Of++
			}
			if drop != "" {
				values[r] = math.NaN()
			}
		}
		all[i] = recommender.StepUsage{At: at, CPUCores: values[recommender.CPU], MemoryBytes: values[recommender.Memory]}
	}
	for _, r := range recommender.Resources {
		if dropped[r].Dropped == 0 {
			dropped[r] = recommender.Implausible{}
		}
	}
	return recommender.NewProfile(all, step), dropped
}

func (e expectation) check(t *testing.T, template corev1.ResourceRequirements, out corev1.PodSpec, spec v1alpha1.AttuneRecommendationSpec, d pod.Decision) {
	created := out.Containers[0].Resources
	t.Logf("created with requests %v, limits %v (%s %s); seed withheld: %q", created.Requests, created.Limits, d.Reason, d.Message, spec.SeedBlocked)
	if e.Unchanged {
		assert.Equal(t, template, created)
	}
	of := func(path string) (resource.Quantity, bool) {
		resources := created
		if name, rest, is := strings.Cut(path, "/"); is {
			i := slices.IndexFunc(out.Containers, func(c corev1.Container) bool { return c.Name == name })
			require.GreaterOrEqual(t, i, 0, path)
			resources, path = out.Containers[i].Resources, rest
		}
		list, name, _ := strings.Cut(path, ".")
		amounts := resources.Requests
		if list == "limits" {
			amounts = resources.Limits
		}
		q, is := amounts[corev1.ResourceName(name)]
		return q, is
	}
	for path, least := range e.Least {
		q, is := of(path)
		assert.True(t, is && q.Cmp(least) >= 0, "%s is %s, and must be %s at least", path, q.String(), least.String())
	}
	for path, most := range e.Most {
		q, is := of(path)
		assert.True(t, is && q.Cmp(most) <= 0, "%s is %s, and must be %s at most", path, q.String(), most.String())
	}
	for _, path := range e.Absent {
		q, is := of(path)
		assert.False(t, is, "%s is %s, and must not be set", path, q.String())
	}
	for name, reason := range e.Holds {
		var found []string
		for _, h := range spec.Containers[0].Holds {
			if h.Resource == name {
				found = append(found, h.Reason)
			}
		}
		assert.Contains(t, found, reason, name)
	}
	for name, reason := range e.Blocked {
		assert.True(t, slices.ContainsFunc(d.Blocked, func(h pod.Blocked) bool { return h.Resource.String() == name && string(h.Reason) == reason }), "%v", d.Blocked)
	}
	for _, c := range out.Containers {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
			assert.False(t, !limit.IsZero() && request.Cmp(limit) > 0, "%s of %s: the request is above the limit", name, c.Name)
		}
	}
}

// The document is that of the reports. `go test ./field -update` writes it.
func TestDocumentIsUpToDate(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Field reports\n\nWhat users of Kubernetes and of right-sizers reported, and the tests that show what attune does with it. " +
		"Made from [test/field/reports](../test/field/reports) by `cd test && go test ./field -update`.\n")
	rows := map[string][]report{}
	for _, r := range read(t) {
		rows[r.Row] = append(rows[r.Row], r)
	}
	for _, row := range slices.Sorted(func(yield func(string) bool) {
		for row := range rows {
			if !yield(row) {
				return
			}
		}
	}) {
		fmt.Fprintf(&b, "\n## %s\n", row)
		for _, r := range rows[row] {
			var links, tests []string
			for _, source := range r.Source {
				repository, number, _ := strings.Cut(source, "#")
				links = append(links, fmt.Sprintf("[%s](https://github.com/%s/issues/%s)", source, repository, number))
			}
			if r.Case != nil || r.Eviction != nil || r.Kill != nil || r.Running != nil || r.Guardrail != nil {
				tests = append(tests, "memory: `TestCases/"+r.ID+"`")
			}
			for _, s := range r.Tests {
				tests = append(tests, fmt.Sprintf("%s: `%s` in `%s`", s.Level, s.Test, s.Package))
			}
			fmt.Fprintf(&b, "\n### %s: %s\n\n- Source: %s\n- Situation: %s\n- Input: %s\n- Before: %s\n- Must happen: %s\n- Shown by %s\n",
				r.ID, r.Title, strings.Join(links, ", "), r.Situation, r.Input, r.Before, r.Must, strings.Join(tests, "; "))
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(b.String()), 0o644))
	}
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	assert.Equal(t, b.String(), string(text), "run: cd test && go test ./field -update")
}
