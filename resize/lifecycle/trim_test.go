package lifecycle_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	. "attune.io/attune/resize/lifecycle"
)

// answers returns the result of every function of these packages that reads a pod, by the function's name.
func answers(d dice, pod *corev1.Pod) map[string]any {
	out := map[string]any{}
	caps, wished, world := d.caps(), d.wishes(pod), d.world()
	world.Node.Room = taken(pod)
	plan, refusal := PlanFor(pod, wished, caps, noon)
	out["PlanFor"] = []any{plan, refusal, string(plan.Patch()), specOf(plan.Apply(pod)), plan.Effect(pod)}
	exact, kept := PlanBack(pod, wished, caps, noon, WaveUndo, ReasonUndo)
	out["Apply"], out["Effect"] = out["PlanFor"], out["PlanFor"]
	boosted := Boosted(pod, v1alpha1.Seeded{Boosted: []v1alpha1.BoostedContainer{{
		Name: "app", CPURequest: pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU], BaseCPURequest: quantity("20m"),
	}}}, func(string) recommender.Amount { return 1 })
	left, known := BoostLeft(pod, boosted, time.Hour, noon)
	end, refusal := PlanBack(pod, boosted, caps, noon, WaveBoost, ReasonBoost)
	out["Restarted"] = Restarted(pod, v1alpha1.Seeded{Boosted: []v1alpha1.BoostedContainer{{Name: "app"}}}, noon, func(string) *Reboost { return &Reboost{Multiplier: 2, Duration: time.Hour} })
	first, unstarted := PlanToStart(pod, wished, caps, noon)
	out["PlanToStart"] = []any{first, unstarted}
	out["Boosted"], out["BoostLeft"], out["PlanBack"] = boosted, []any{left, known}, []any{exact, kept, end, refusal}
	admitted, refusal := Admit(pod, plan, world)
	out["Admit"] = []any{admitted, refusal}
	reached, refusal := WithinReach(pod, plan, world)
	out["TurnedAway"] = TurnedAway(pod)
	out["KilledAfterStart"] = KilledAfterStart(pod, noon)
	out["WithinReach"] = []any{reached, refusal}
	out["Fits"] = Fits(pod, plan, world)
	out["Declined"] = Declined(nil, Outcome{Kind: OutcomeTerminal}, pod, plan, world)
	out["DeclinedMeanwhile"] = DeclinedMeanwhile(pod, plan, world)

	out["Needs"] = plan.Needs(pod)
	out["MayEvict"], out["Stays"] = MayEvict(pod, d.eviction(pod, plan)), Stays(pod, d.eviction(pod, plan))
	out["Tied"], out["Takes"] = Tied(pod), Takes(d.eviction(pod, plan).Nodes[0], pod, plan.Needs(pod))
	out["Accepting"] = Accepting(pod)(d.eviction(pod, plan).Nodes[0])
	evicted := []v1alpha1.HistoryEntry{{Result: ResultEvicted, Timestamp: metav1.NewTime(pod.CreationTimestamp.Time)}}
	out["JudgeSuccessor"] = JudgeSuccessor(&v1alpha1.AttuneRecommendationStatus{History: evicted}, []*corev1.Pod{pod}, d.eviction(pod, plan).Seed, func(*corev1.Pod) *v1alpha1.Seeded { return nil }, pod.CreationTimestamp.Add(time.Minute))
	out["LeavePlan"] = LeavePlan(pod, d.eviction(pod, plan).Seed)

	record := NewRecord(plan, pod, noon, auto())
	out["NewRecord"] = record
	out["GenerationNamed"], out["SameProgram"], out["Specs"] = podview.GenerationNamed(pod), podview.SameProgram(pod, &pod.Spec), podview.Specs(pod)
	out["WithSecond"] = WithSecond(record, plan, pod)
	out["RecordReturned"] = RecordReturned(record, pod)
	out["SecondRefused"] = SecondRefused(WithSecond(record, plan, pod), pod)
	back, refusal := RevertPlan(pod, record, able())
	out["RevertPlan"] = []any{back, refusal}
	out["StepBackPlan"] = StepBackPlan(pod, record, able())
	out["RequestsMore"] = RequestsMore(pod, ScaledRequests{"": {true, true}})
	out["RestPlan"] = RestPlan(pod, WithSecond(record, plan, pod))
	out["WholePlan"] = WholePlan(pod, record)
	out["OnItsWay"] = OnItsWay(pod, record)
	state, verdict := harm.Assess(pod, record, able(), noon, auto(), harm.Signals{}), harm.Judge(pod, record, noon, auto(), harm.Signals{})
	out["Assess"], out["harm.Shown"] = Assess(pod, record, able(), noon), harm.Shown(pod, record)
	out["harm.Assess"] = []any{state, Next(state, record, auto(), Circumstances{}, noon)}
	out["harm.Judge"] = verdict
	birth, born := harm.BirthRecord(pod, map[string]recommender.Size{"app": size(4000, 8000, 4096, 8192)})
	out["harm.BirthRecord"] = []any{birth, born}
	restored, refusal := harm.BirthPlan(pod, birth, able(), noon)
	out["harm.BirthPlan"] = []any{restored, refusal}
	out["harm.JudgeBirth"] = harm.JudgeBirth(pod, birth, noon, auto(), harm.Signals{})
	crashes, fresh := harm.BlockLowering(nil, pod, birth, func(string) time.Time { return time.Time{} }, noon)
	out["harm.BlockLowering"] = []any{crashes, fresh}
	loss, lost := harm.LossOf(pod, map[string]recommender.Size{"app": size(4000, 8000, 4096, 8192)}, true, noon)
	out["harm.LossOf"] = []any{loss, lost}
	original, refusal := harm.RestorePlan(pod, loss, able(), noon)
	out["harm.RestorePlan"] = []any{original, refusal}
	out["Stopped"], out["ResizedByAttune"] = Stopped(pod, world), podview.ResizedByAttune(pod)

	out["Read"], out["OOMKills"], out["TemplateHash"], out["QOSClass"] = podview.Read(pod), podview.OOMKills(pod), podview.TemplateHash(pod), podview.QOSClass(pod)
	out["KillOf"] = out["OOMKills"]
	by, at := podview.ResizedBy(pod)
	out["ResizedBy"] = []any{by, at}
	since, unschedulable := podview.UnschedulableSince(pod)
	out["UnschedulableSince"] = []any{since, unschedulable}
	out["ResizedSince"] = podview.ResizedSince(pod, noon.Add(-500*time.Second), noon)
	out["SizedSince"] = podview.SizedSince(pod)
	out["ResizedEntries"] = len(podview.ResizedEntries(pod, func(manager string) string { return manager }))
	catchUp, refusal := CatchUp(pod)
	out["CatchUp"] = []any{catchUp, refusal}
	out["CannotStart"], out["StartPlan"] = CannotStart(pod), StartPlan(pod)
	out["Blocked"], out["InitRequests"], out["Overhead"] = Blocked(pod, world), podview.InitRequests(pod), podview.Overhead(pod)
	out["RecordsFull"], out["Counted"], out["NeverRaised"] = RecordsFull(pod, plan, world), podview.Counted(pod), NeverRaised(pod)
	for _, c := range podview.Read(pod) {
		out["NotLowered"], out["RestartsOn"] = NotLowered(pod, c.Name, noon), RestartsOn(pod, c.Name)
		out["ContainerOf"], out["FactsOf"] = podview.ContainerOf(pod, c.Name).ResizePolicy, FactsOf(pod, podview.ContainerOf(pod, c.Name), noon)
	}
	out["Unfinished"], out["Guaranteed"], out["Finished"] = podview.Unfinished(pod), podview.Guaranteed(pod), Finished(pod)
	out["Untouchable"], out["NamespaceGoing"], out["PlanOf"], out["RestartsAny"] = Untouchable(pod), NamespaceGoing(pod, true), PlanOf(pod), RestartsAny(pod, plan)
	out["ClassOf"], out["HasPodLevelResources"], out["IsReady"], out["Running"], out["IsAllocated"] = podview.ClassOf(pod), podview.HasPodLevelResources(pod), podview.IsReady(pod), podview.Running(pod), podview.IsAllocated(pod)
	out["Requests"], out["Reserved"], out["AllocatedRequests"] = podview.Requests(pod), podview.Reserved(pod), podview.AllocatedRequests(pod)
	out["ContainerRequests"], out["PodLimit"], out["PodLimitLags"], out["ResizeUnderway"] = podview.ContainerRequests(pod), podview.PodLimit(pod), podview.PodLimitLags(pod), podview.ResizeUnderway(pod)
	for _, c := range podview.Resizable(pod) {
		out["IsSidecar"], out["KillingLimit"] = podview.IsSidecar(pod, c), podview.KillingLimit(pod, podview.ReadSpec(c.Resources))
	}
	out["harm.LearnKills"] = harm.LearnKills(nil, pod, nil, nil, noon)
	out["harm.DropRolledBack"] = harm.DropRolledBack([]v1alpha1.Floor{{Container: "app", TemplateHash: "bad"}}, []v1alpha1.Originals{
		{TemplateHash: podview.GenerationOf(pod.Labels), Since: &metav1.Time{Time: noon.Add(-time.Hour)}}, {TemplateHash: "bad", Since: &metav1.Time{Time: noon.Add(-time.Minute)}},
	}, []*corev1.Pod{pod}, noon)
	out["ResizedAtStart"] = podview.ResizedAtStart(pod)
	ends := harm.Ends{Facts: map[string]harm.KillFacts{}, Originals: map[string]recommender.Size{"app": size(500, 1000, 512, 1024)}}
	for _, status := range podview.Statuses(pod) {
		for _, end := range podview.Terminations(status) {
			ends.Facts[podview.Evidence(end)] = harm.KillFacts{Used: 1, Workloads: 3 * (end.FinishedAt.Second() % 2), Events: 1}
		}
	}
	corrected, floors, told, again := harm.ReadEnds(pod, nil, ends, noon)
	out["harm.ReadEnds"] = []any{podview.OOMKills(corrected), floors, told, again}
	out["harm.SiblingsUnready"] = harm.SiblingsUnready([]*corev1.Pod{pod}, v1alpha1.ResizeRecord{PodUID: "another", WrittenAt: metav1.NewTime(noon.Add(-time.Hour))},
		nil, func(string) bool { return false })
	lately := map[string]Lately{}
	for _, c := range podview.Read(pod) {
		lately[c.Name] = Lately{P95: [2]recommender.Usage{150, 150 << 20}, Samples: [2]int{20, 20}, Throttled: 0.3}
	}
	out["DueOf"] = DueOf(pod, lately)
	out["GrowthOf"], out["Footprint"], out["RoomOf"] = GrowthOf(pod, plan), Footprint(pod), RoomOf([]*corev1.Pod{pod}, nil, noon)
	quotas := []corev1.ResourceQuota{quotaOf(corev1.ResourceRequestsCPU, "10", "1", corev1.ResourceQuotaScopeNotTerminating), quotaOf(corev1.ResourceLimitsMemory, "9Gi", "1Gi")}
	room := constraint.NewQuotaRoom(quotas)
	room.Promise(pod, size(100, 0, 0, 100))
	out["Promise"], out["Left"] = room.Left(running(size(500, 1000, 512, 1024))), room.Left(pod)
	memory, _ := constraint.CountedBy(corev1.ResourceLimitsMemory)
	out["Covers"], out["Charged"], out["Unspecified"] = constraint.Covers(&quotas[0], pod), constraint.Charged(pod), memory.Unspecified(pod)
	return out
}

// eviction returns the facts for evicting a pod to another node that may not accept it.
func (d dice) eviction(pod *corev1.Pod, plan Plan) Eviction {
	other := aNode("other", "64")
	other.Labels["app"] = "x"
	if d.rarely() {
		other.Spec.Taints = []corev1.Taint{{Key: d.word(), Effect: corev1.TaintEffectNoSchedule}}
	}
	seed := &v1alpha1.Seed{ValidUntil: metav1.NewTime(noon.Add(time.Hour))}
	for _, m := range plan.Moves {
		resources := podview.ToResources(m.To)
		seed.Containers = append(seed.Containers, v1alpha1.ContainerSeed{Name: m.Container, CPURequest: resources.CPURequest, MemoryRequest: resources.MemoryRequest})
	}
	return Eviction{
		Now: noon, Allowed: true, Replicas: 2, Siblings: []*corev1.Pod{pod, ofDeployment("web-2")}, Nodes: []*corev1.Node{other},
		Wanted: &plan, Seed: seed,
	}
}

// Resizes read only the fields of a pod that informers keep: every function returns the same for the whole pod and for
// the trimmed one.
func TestATrimmedPodIsTheSameToEveryResize(t *testing.T) {
	require.ElementsMatch(t, functionsOfPods(t), keys(answers(throw(0), throw(0).pod())), "every function that takes a pod is asked")
	moved, evicted, smaller := 0, 0, 0
	const pods = 1500
	for seed := range uint64(pods) {
		whole := throw(seed).pod()
		whole.OwnerReferences = ofDeployment("web-1").OwnerReferences
		throw(seed + 1).stuff(whole)
		left, err := trim.Object(whole.DeepCopy())
		require.NoError(t, err)
		want, got := answers(throw(seed), whole), answers(throw(seed), left.(*corev1.Pod))
		for name := range want {
			require.Equal(t, textOf(t, want[name]), textOf(t, got[name]), "%s, seed %d", name, seed)
		}
		if !strings.Contains(textOf(t, want["PlanFor"]), `"Moves":null`) {
			moved++
		}
		if textOf(t, want["MayEvict"]) == "null" {
			evicted++
		}
		if left.(*corev1.Pod).Size() < whole.Size() {
			smaller++
		}
	}
	assert.Greater(t, moved, pods/10, "the pods are not all refused for something odd")
	assert.Greater(t, evicted, pods/100)
	assert.Greater(t, smaller, pods*9/10)
}

// textOf formats amounts by value, so that their internal form does not matter.
func textOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

func keys(m map[string]any) (all []string) {
	for key := range m {
		all = append(all, key)
	}
	return all
}

// functionsOfPods returns the names of the exported functions and methods of resize and its neighbours that take a pod.
func functionsOfPods(t *testing.T) (names []string) {
	t.Helper()
	production := func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }
	for folder, name := range map[string]string{".": "lifecycle", "..": "resize", "../harm": "harm", "../../podview": "podview", "../../internal/constraint": "constraint"} {
		prefix := map[string]string{"harm": "harm."}[name]
		packages, err := parser.ParseDir(token.NewFileSet(), folder, production, 0) //nolint:staticcheck // the folders have no build tags
		require.NoError(t, err)
		ast.Inspect(packages[name], func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok && f.Name.IsExported() && takesPods(f) && !slices.Contains(parts, f.Name.Name) {
				names = append(names, prefix+f.Name.Name)
			}
			return true
		})
	}
	return names
}

// parts are functions that return a part of the pod unchanged.
var parts = []string{"Resizable", "AllContainers", "Statuses", "Condition"}

func takesPods(f *ast.FuncDecl) bool {
	return slices.ContainsFunc(f.Type.Params.List, func(parameter *ast.Field) bool {
		of := parameter.Type
		if list, ok := of.(*ast.ArrayType); ok {
			of = list.Elt
		}
		pointer, ok := of.(*ast.StarExpr)
		if !ok {
			return false
		}
		name, ok := pointer.X.(*ast.SelectorExpr)
		return ok && name.Sel.Name == "Pod"
	})
}

// stuff sets unset fields of a pod to random values, and fields that matter only in combination together.
func (d dice) stuff(pod *corev1.Pod) {
	if d.rarely() {
		pod.Labels = nil
	}
	if d.rarely() {
		pod.Spec.NodeName = ""
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable})
	}
	if d.rarely() {
		memory := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
		if d.often() {
			memory.SizeLimit = resource.NewQuantity(int64(d.IntN(1<<31)), resource.BinarySI)
		}
		pod.Spec.Volumes = []corev1.Volume{{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: memory}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "shm", MountPath: "/dev/shm"}}
	}
	d.fill(reflect.ValueOf(&pod.ObjectMeta).Elem(), 0)
	d.fill(reflect.ValueOf(&pod.Spec).Elem(), 0)
	d.fill(reflect.ValueOf(&pod.Status).Elem(), 0)
	pod.DeletionTimestamp = nil
	if d.often() {
		pod.ManagedFields = append(pod.ManagedFields, podview.ResizedEntry(podview.FieldManager, noon.Add(-time.Duration(d.IntN(1000))*time.Second)))
	}
	for range d.IntN(7) {
		pod.ManagedFields = append(pod.ManagedFields, podview.ResizedEntry(d.word(), noon.Add(-time.Duration(d.IntN(1000))*time.Second)))
	}
}

// words are texts with a meaning for some field.
var words = []string{
	"app", "side-1", "proxy", "shm", "Memory", "windows", "linux", "Always", "Never", "RestartContainer", "OOMKilled", "memory", "cpu",
	"pod-template-hash", "controller-revision-hash", v1alpha1.SeededAnnotation, v1alpha1.SkipAnnotation, corev1.MirrorPodAnnotationKey, "true", "x",
	workload.KarpenterDoNotDisrupt, workload.AutoscalerSafe, "false", "kubernetes.io/hostname", "Exists", "In",
}

func (d dice) word() string { return words[d.IntN(len(words))] }

// fill sets a struct's empty fields, each with a low probability, and descends into the others.
func (d dice) fill(v reflect.Value, depth int) {
	for i := range v.NumField() {
		field := v.Field(i)
		if !field.CanSet() {
			continue
		}
		if field.IsZero() {
			if d.IntN(12) == 0 {
				d.set(field, depth)
			}
			continue
		}
		if field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct {
			for j := range field.Len() {
				d.fill(field.Index(j), depth+1)
			}
		}
	}
}

func (d dice) set(v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(noon.Add(d.while()))))
		return
	case resource.Quantity:
		v.Set(reflect.ValueOf(*resource.NewQuantity(int64(d.IntN(1<<30)), resource.BinarySI)))
		return
	}
	if depth > 6 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(d.word())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(int64(d.IntN(100)))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.set(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() && d.IntN(3) == 0 {
				d.set(field, depth+1)
			}
		}
	case reflect.Slice:
		for range 1 + d.IntN(2) {
			element := reflect.New(v.Type().Elem()).Elem()
			d.set(element, depth+1)
			v.Set(reflect.Append(v, element))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 1 + d.IntN(2) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			d.set(key, depth+1)
			d.set(value, depth+1)
			v.SetMapIndex(key, value)
		}
	}
}
