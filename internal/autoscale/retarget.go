package autoscale

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
)

// OriginalTargetAnnotation is on the HPA or ScaledObject whose target attune rewrites (Rewritten).
const OriginalTargetAnnotation = "attune.io/original-target"

// leastStabilization is the shortest window of scaleDown, in seconds, with which a target may be rewritten. A rewritten
// target is too high for at most one sync of the HPA, which the window covers. defaultStabilization is Kubernetes' own.
const leastStabilization, defaultStabilization = 60, 300

// Rewritten is the value of OriginalTargetAnnotation.
type Rewritten struct {
	// Metric is cpu, or cpu/<container> for the metric of a container.
	Metric string `json:"metric"`
	// Original is the target of the user, and Written the one that attune wrote.
	Original int32 `json:"original"`
	Written  int32 `json:"written"`
	// Request is the request of a pod to which Original belongs, in millicores; 0: not known.
	Request int64 `json:"request,omitempty"`
}

// hpaKind and scaledObjectKind are written before names.
const hpaKind, scaledObjectKind = "HorizontalPodAutoscaler ", "ScaledObject "

// refusal returns why attune must not rewrite the target of an HPA, whether it belongs to a ScaledObject or not.
func refusal(hpa *autoscalingv2.HorizontalPodAutoscaler, of Binding) string {
	switch owner := foreignWriter(hpa); {
	case of.Resource != recommender.CPU:
		return "attune rewrites targets of CPU only"
	case owner != "":
		return writtenBack(hpaKind+hpa.Name, owner)
	case ptr.Deref(hpa.Spec.MinReplicas, 1) < 1:
		return hpaKind + hpa.Name + " has minReplicas 0"
	case metrics(hpa) > 1:
		return hpaKind + hpa.Name + " has more than one target of CPU utilization"
	case stabilization(hpa) < leastStabilization:
		return fmt.Sprintf("%s waits only %d s before it scales down (behavior.scaleDown.stabilizationWindowSeconds); at least %d s are needed",
			hpaKind+hpa.Name, stabilization(hpa), leastStabilization)
	case of.Percent < 1:
		return "the target of " + hpaKind + hpa.Name + " is not set"
	case of.Percent > greatestOriginal:
		return fmt.Sprintf("the target of %s is above %d %%", hpaKind+hpa.Name, greatestOriginal)
	}
	return ""
}

func writtenBack(name, owner string) string {
	return name + " belongs to " + owner + ", which would write its target back"
}

// originals returns the bindings of an HPA with the original targets, or why attune must not change them. A fixed HPA has
// those that attune has changed: their targets still follow the requests.
func (a Autoscalers) originals(hpa *autoscalingv2.HorizontalPodAutoscaler, w workload.Workload) []Binding {
	bindings := bindingsOf(hpa, w)
	for i := range bindings {
		if b := &bindings[i]; b.Resource == recommender.CPU {
			a.addTarget(hpa, b, w)
		}
		bindings[i].fixed = fixed(hpa)
	}
	return slices.DeleteFunc(bindings, func(b Binding) bool { return b.fixed && (!b.object.rewritten || b.object.foreign != "") })
}

// addTarget adds to a binding of an HPA its original target and the object that attune writes: the HPA, or its ScaledObject.
func (a Autoscalers) addTarget(hpa *autoscalingv2.HorizontalPodAutoscaler, b *Binding, w workload.Workload) {
	if owner := ScaledObjectOf(hpa); owner == "" {
		b.object.live = b.Percent
		b.setOriginal(hpa, hpaKind)
	} else {
		b.object.owner, b.object.live, b.Original = owner, b.Percent, b.Percent
		b.object.foreign = fmt.Sprintf("%s of HorizontalPodAutoscaler %s has no such target", scaledObjectKind+owner, hpa.Name)
		for i := range a.ScaledObjects {
			o := &a.ScaledObjects[i]
			for _, of := range ScaledObjectBindings(o, w) {
				if o.GetName() == owner && of.metric() == b.metric() && of.Percent > 0 {
					b.addScaledObject(o, of.Percent)
				}
			}
		}
	}
	b.refused = cmp.Or(refusal(hpa, *b), b.refused, throughOwner(hpa, w))
	if b.refused == "" && w.Kind == v1alpha1.KindRollout {
		b.refused = fmt.Sprintf("%s scales Rollout %s, which may have pods of a preview that it does not count", hpaKind+hpa.Name, w.Name)
	}
}

// addScaledObject adds the ScaledObject that attune writes, with its target.
func (b *Binding) addScaledObject(o *unstructured.Unstructured, live int32) {
	b.object.owner, b.object.live = o.GetName(), live
	b.setOriginal(o, scaledObjectKind)
	if writer := foreignWriter(o); writer != "" {
		b.refused = writtenBack(scaledObjectKind+b.object.owner, writer)
	}
}

// setOriginal sets the original target of the object that is written, or why that is not known.
func (b *Binding) setOriginal(o metav1.Object, kind string) {
	b.Original, b.object.foreign, b.object.uid = b.object.live, "", o.GetUID()
	if b.object.note, b.object.rewritten = rewrittenOf(o); b.object.rewritten {
		b.Original, b.object.foreign = b.object.note.original(kind+o.GetName(), b.metric(), b.object.live)
		b.object.path = pathOf(o, b.metric())
	}
	if b.object.live < 1 {
		b.object.foreign = cmp.Or(b.object.foreign, fmt.Sprintf("the target of %s is not set", kind+o.GetName()))
	}
}

// ScaledObjectOf returns the name of the ScaledObject from which KEDA creates an HPA; empty: a user created the HPA.
func ScaledObjectOf(hpa metav1.Object) string {
	for _, owner := range hpa.GetOwnerReferences() {
		if owner.Kind == ScaledObjectKind.Kind {
			return owner.Name
		}
	}
	return ""
}

// original returns the original target of an object that attune has rewritten, from its live target, or why that is not
// known.
func (r Rewritten) original(name, metric string, live int32) (original int32, why string) {
	switch {
	case !r.valid():
		return live, fmt.Sprintf("the annotation %s of %s is not readable. Check the target. attune continues when all pods have their original requests, or after you remove the annotation", OriginalTargetAnnotation, name)
	case r.Metric != metric:
		return live, fmt.Sprintf("the annotation %s of %s is for the metric %s. Check the target. attune continues when all pods have their original requests, or after you remove the annotation",
			OriginalTargetAnnotation, name, r.Metric)
	case live != r.Written && live != r.Original:
		return live, fmt.Sprintf("the target of %s is %d %%: it was changed after attune had rewritten it from %d %% to %d %%. attune continues with %d %% of the original request when all pods have their original requests, or after you remove the annotation %s",
			name, live, r.Original, r.Written, live, OriginalTargetAnnotation)
	}
	return r.Original, ""
}

// metric is the name of the binding's metric in Rewritten.
func (b Binding) metric() string {
	if b.Container == "" {
		return b.Resource.String()
	}
	return b.Resource.String() + "/" + b.Container
}

// rewrittenOf reads the annotation of an object.
func rewrittenOf(o metav1.Object) (r Rewritten, found bool) {
	value, found := o.GetAnnotations()[OriginalTargetAnnotation]
	if !found || json.Unmarshal([]byte(value), &r) != nil {
		return Rewritten{}, found
	}
	return r, found
}

// valid reports whether attune could have written the annotation.
func (r Rewritten) valid() bool {
	return r.Metric != "" && 1 <= r.Original && r.Original <= greatestOriginal &&
		r.Written >= min(replicas.LeastTarget, r.Original) && r.Written <= max(replicas.GreatestTarget, r.Original) && 0 <= r.Request && r.Request <= int64(podview.Plausible)
}

// greatestOriginal is the largest target that attune changes, in percent.
const greatestOriginal = 1000

// metrics counts the targets of CPU utilization of an HPA.
func metrics(hpa *autoscalingv2.HorizontalPodAutoscaler) (n int) {
	for i := range hpa.Spec.Metrics {
		if b, ok := binding(&hpa.Spec.Metrics[i]); ok && b.Resource == recommender.CPU {
			n++
		}
	}
	return n
}

func stabilization(hpa *autoscalingv2.HorizontalPodAutoscaler) int32 {
	if b := hpa.Spec.Behavior; b != nil && b.ScaleDown != nil {
		return ptr.Deref(b.ScaleDown.StabilizationWindowSeconds, defaultStabilization)
	}
	return defaultStabilization
}

// continuous are programs that write the manifests of their users back: parts of the names under which they write, and
// the labels and annotations by which they know their objects.
var continuous = []struct {
	name     string
	managers []string
	marks    []string
}{
	{"Argo CD", []string{"argocd-controller", "argocd-application-controller"}, []string{"argocd.argoproj.io/tracking-id"}},
	{"Flux", []string{"kustomize-controller", "helm-controller", "flux"},
		[]string{"kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name"}},
	{"Config Sync", []string{"configsync"}, []string{"configmanagement.gke.io/managed"}},
	{"Fleet", []string{"fleetagent"}, []string{"objectset.rio.cattle.io/id"}},
}

// WriterAnnotation keeps the result of foreignWriter in objects of the cache, which have no managed fields.
const WriterAnnotation = "attune.io/foreign-writer"

// PathAnnotation has the place of the target that attune has rewritten, in the whole object. Objects in the cache get it, as
// they lack other metrics and triggers.
const PathAnnotation = "attune.io/target-path"

// paths matches the values of PathAnnotation that count. A user could write another one.
var paths = regexp.MustCompile(`^/spec/(metrics/[0-9]+/(resource|containerResource)/target/averageUtilization|triggers/[0-9]+/metadata/value)$`)

// pathOf returns where an HPA or ScaledObject has the target of a metric; empty: it has none, or more than one.
func pathOf(o metav1.Object, metric string) (path string) {
	if path := o.GetAnnotations()[PathAnnotation]; paths.MatchString(path) {
		return path
	}
	switch o := o.(type) {
	case *unstructured.Unstructured:
		path, _ = targetAt(o, metric)
	case *autoscalingv2.HorizontalPodAutoscaler:
		for i := range o.Spec.Metrics {
			b, ok := binding(&o.Spec.Metrics[i])
			switch {
			case !ok || b.Resource != recommender.CPU || b.metric() != metric:
			case path != "":
				return ""
			default:
				path = b.at(i)
			}
		}
	}
	return path
}

// at is where an HPA has the target of a binding that is one of its metrics.
func (b Binding) at(i int) string {
	if b.Container != "" {
		return fmt.Sprintf("/spec/metrics/%d/containerResource/target/averageUtilization", i)
	}
	return fmt.Sprintf("/spec/metrics/%d/resource/target/averageUtilization", i)
}

// Marks returns the annotations that an HPA or ScaledObject keeps in the cache; nil: none.
func Marks(o metav1.Object) (marks map[string]string) {
	if value, ok := o.GetAnnotations()[OriginalTargetAnnotation]; ok {
		podview.SetIn(&marks, OriginalTargetAnnotation, value)
		note, _ := rewrittenOf(o)
		if path := pathOf(o, note.Metric); path != "" {
			podview.SetIn(&marks, PathAnnotation, path)
		}
	}
	if writer := foreignWriter(o); writer != "" {
		podview.SetIn(&marks, WriterAnnotation, writer)
	}
	return marks
}

// foreignWriter returns which program or object writes the spec of an object back; empty: none is known. KEDA's
// ScaledObject is none: attune writes the ScaledObject instead.
func foreignWriter(o metav1.Object) string {
	if writer := o.GetAnnotations()[WriterAnnotation]; writer != "" {
		return writer
	}
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind != ScaledObjectKind.Kind {
			return owner.Kind + " " + owner.Name
		}
	}
	for _, program := range continuous {
		marked := func(mark string) bool {
			_, label := o.GetLabels()[mark]
			_, annotation := o.GetAnnotations()[mark]
			return label || annotation
		}
		writes := func(f metav1.ManagedFieldsEntry) bool {
			return slices.ContainsFunc(program.managers, func(m string) bool { return strings.Contains(f.Manager, m) }) &&
				f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), `"f:spec"`)
		}
		// KEDA copies the labels and annotations of a ScaledObject to its HPA, which it alone writes.
		if ScaledObjectOf(o) == "" && (slices.ContainsFunc(program.marks, marked) || slices.ContainsFunc(o.GetManagedFields(), writes)) {
			return program.name
		}
	}
	return ""
}

// Written returns the object whose target attune writes for an HPA: the HPA, or its ScaledObject.
func (b Binding) Written() (schema.GroupVersionKind, string) {
	if b.object.owner != "" {
		return ScaledObjectKind, b.object.owner
	}
	return autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), b.HPA
}

// Object names the object that Written returns.
func (b Binding) Object() string {
	kind, name := b.Written()
	return kind.Kind + " " + name
}

// UID returns the UID of the object that Written returns.
func (f *Follower) UID() types.UID { return f.object.uid }

// Live returns the target of the object that attune writes, in percent. KEDA copies the one of a ScaledObject to its HPA
// (Percent) a moment later.
func (f *Follower) Live() int32 { return f.object.live }

// Counts reports whether the HPA divides by the request of a container.
func (f *Follower) Counts(container string) bool { return f.binds(container, f.Resource) }

// Await returns the holds in which the requests of the follower do not change at present, and why.
func (h Holds) Await(why string) Holds {
	h.waits = why
	return h
}

// leftover says which request new pods get because attune cannot change the target of a binding at present (paired), and how a
// user restores the target if attune has no right to; empty: neither applies.
func leftover(h *Holds, b Binding, paired recommender.Amount) (says string) {
	if !b.object.rewritten || b.object.foreign != "" || b.Original == b.object.live {
		return ""
	}
	if paired > 0 {
		says = fmt.Sprintf(". New pods that attune sizes get the request that belongs to %d %%, within the bounds of the policy", b.object.live)
	}
	if h.mayRetarget {
		return says
	}
	kind, name := b.Written()
	resource, live, value := "hpa", any(b.object.live), any(b.Original)
	if kind == ScaledObjectKind {
		resource, live, value = "scaledobject", strconv.Itoa(int(b.object.live)), strconv.Itoa(int(b.Original))
	}
	restore := fmt.Sprintf("kubectl edit %s %s -n %s (set %d %%)", resource, name, h.workload.Namespace, b.Original)
	if b.object.path != "" {
		patch, _ := json.Marshal([]operation{{"test", b.object.path, live}, {"replace", b.object.path, value}, {Op: "remove", Path: annotationPath}}) // of strings and numbers
		restore = fmt.Sprintf("kubectl patch %s %s -n %s --type=json -p='%s'", resource, name, h.workload.Namespace, patch)
	}
	undo := fmt.Sprintf("kubectl attune undo %s/%s", strings.ToLower(string(h.workload.Kind)), h.workload.Name)
	if b.object.live < b.Original { // the pods have higher requests, with which the original target would remove replicas
		restore, undo = undo, restore
	}
	return fmt.Sprintf(". attune changed the target of %s %s from %d %% to %d %% and may not restore it%s. Restore it with %s, and then %s",
		kind.Kind, name, b.Original, b.object.live, says, restore, undo)
}

// Rewrite is a change of the target of an HPA or ScaledObject, together with its annotation.
type Rewrite struct {
	// From and To are targets in percent.
	From, To int32
	// Patch is a JSON patch that fails if the object has changed since it was read.
	Patch []byte
}

// Rewrite returns the change that gives an object, as just read from the API server, a target. nil: it has it. An error
// says why the object must not be changed; it may be another one than the cache showed.
func (b Binding) Rewrite(o *unstructured.Unstructured, to int32) (*Rewrite, error) {
	name := o.GetKind() + " " + o.GetName()
	at, live := targetAt(o, b.metric())
	if live < 1 || o.GetDeletionTimestamp() != nil {
		return nil, fmt.Errorf("%s has no target of %s utilization any more, or more than one", name, b.metric())
	}
	original, request, why := b.originalIn(o, name, live)
	switch {
	case why != "":
		return nil, errors.New(why)
	case original != b.Original:
		return nil, fmt.Errorf("the target of %s was changed to %d %% a moment ago", name, original)
	case to == original:
		return rewrite(o, at, live, to, Rewritten{})
	case to >= min(live, original) && to <= max(live, original): // it may always come closer to the original
	case foreignWriter(o) != "":
		return nil, errors.New(writtenBack(name, foreignWriter(o)))
	}
	return rewrite(o, at, live, to, Rewritten{b.metric(), original, to, cmp.Or(b.object.request, request)})
}

// originalIn returns the original target of an object as just read, with the request of the annotation, or why it is not known.
func (b Binding) originalIn(o *unstructured.Unstructured, name string, live int32) (original int32, request int64, why string) {
	note, noted := rewrittenOf(o)
	original, same := live, live == b.object.live
	switch {
	case noted && b.object.renewed && note == b.object.note && same:
	case noted:
		original, why = note.original(name, b.metric(), live)
	case b.object.noteLost && same:
		original = b.Original
	}
	return original, note.Request, why
}

// Restore returns the change that gives an object its original target back and removes the annotation; nil: it has none.
// A target that attune did not write stays.
func Restore(o *unstructured.Unstructured) (*Rewrite, error) {
	stored, found := rewrittenOf(o)
	if !found || ScaledObjectOf(o) != "" { // KEDA copies the annotation of a ScaledObject to its HPA
		return nil, nil
	}
	at, live := targetAt(o, stored.Metric)
	to := live
	if stored.valid() && live == stored.Written {
		to = stored.Original
	}
	return rewrite(o, at, live, to, Rewritten{})
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// annotationPath is where an object has OriginalTargetAnnotation.
var annotationPath = "/metadata/annotations/" + strings.ReplaceAll(OriginalTargetAnnotation, "/", "~1")

// rewrite returns a change; nil if there is none. An annotation without a metric is removed.
func rewrite(o *unstructured.Unstructured, at string, from, to int32, note Rewritten) (*Rewrite, error) {
	value := func(percent int32) any {
		if o.GetKind() == ScaledObjectKind.Kind {
			return strconv.Itoa(int(percent))
		}
		return percent
	}
	// The API server rejects another version of the object as a conflict.
	patch := []operation{{"test", "/metadata/uid", o.GetUID()}, {"replace", "/metadata/resourceVersion", o.GetResourceVersion()}}
	unchanged := len(patch)
	if from != to && o.GetKind() != ScaledObjectKind.Kind { // a ScaledObject may spell the number in another way
		patch = append(patch, operation{"test", at, from})
	}
	if from != to {
		patch = append(patch, operation{"replace", at, value(to)})
	}
	stored, found := rewrittenOf(o)
	switch {
	case note.Metric != "" && (!found || stored != note):
		text, err := json.Marshal(note)
		if err != nil {
			return nil, err
		}
		if o.GetAnnotations() == nil {
			patch = append(patch, operation{"add", "/metadata/annotations", map[string]string{}})
		}
		patch = append(patch, operation{"add", annotationPath, string(text)})
	case note.Metric == "" && found:
		patch = append(patch, operation{Op: "remove", Path: annotationPath})
	}
	if len(patch) == unchanged {
		return nil, nil
	}
	text, err := json.Marshal(patch)
	return &Rewrite{From: from, To: to, Patch: text}, err
}

// targetAt returns where an HPA or ScaledObject has the target of a metric, and the target in percent; 0: it has none, or
// more than one.
func targetAt(o *unstructured.Unstructured, metric string) (path string, percent int32) {
	root, read := "metrics", hpaTarget
	if o.GetKind() == ScaledObjectKind.Kind {
		root, read = "triggers", triggerBinding
	}
	field, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", root)
	list, _ := field.([]any)
	for i := range list {
		of, _ := list[i].(map[string]any)
		b, ok := read(of)
		switch {
		case !ok || b.Resource != recommender.CPU || b.metric() != metric:
		case path != "":
			return "", 0
		default:
			if path, percent = b.at(i), b.Percent; root == "triggers" {
				path = fmt.Sprintf("/spec/triggers/%d/metadata/value", i)
			}
		}
	}
	return path, percent
}

// hpaTarget reads one metric of an HPA.
func hpaTarget(of map[string]any) (b Binding, ok bool) {
	var m autoscalingv2.MetricSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(of, &m); err != nil {
		return b, false
	}
	return binding(&m)
}
