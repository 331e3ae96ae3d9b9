package policy

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// mostContainers is the number of entries of containerPolicies, as in the schema.
const mostContainers = 64

// containerNames is the field with the entries.
const containerNames = "containerPolicies"

// entry is one entry of containerPolicies. Its settings are one more layer, above all layers of the policy, so that each
// field of cpu and memory is merged, checked and explained as the policy's own.
type entry struct {
	v1alpha1.ContainerPolicy
	// path of the entry in the spec, such as containerPolicies[app].
	path string
	// from is the level that sets the list, level the layer of the entry.
	from, level Level
	// merged has the layers of the policy and of the entry.
	merged overlay
	// sets are the resources of which the entry sets a field.
	sets [2]bool
}

// containerSettings reads containerPolicies and adds the settings and rules of each container to s, which has those of the
// policy. The list of the highest level replaces all lower ones.
func containerSettings(o *overlay, s *Settings) {
	entries := pick(o, containerNames, nil, func(l *layer) *[]v1alpha1.ContainerPolicy { return list(l.ContainerPolicies) })
	if len(entries) == 0 {
		return
	}
	if len(entries) > mostContainers {
		o.invalid(containerNames, "%s has %d entries: use at most %d, and the entry %q for the others", containerNames, len(entries), mostContainers, resize.EveryContainer)
		entries = entries[:mostContainers]
	}
	s.Containers, s.Resize.Containers = make(map[string]*ContainerSettings, len(entries)), make(map[string]resize.ContainerRules, len(entries))
	// Without this, Boost would be the longest of the entries.
	s.Resize.Containers[resize.EveryContainer] = s.Resize.Of("")
	for _, of := range entries {
		name := string(of.ContainerName)
		if _, twice := s.Containers[name]; twice || name == "" {
			o.invalid(containerNames, "%s has an empty containerName, or has %s twice: give each entry the name of a container or %q", containerNames, o.quote(containerNames, name), resize.EveryContainer)
			continue
		}
		checkContainer(o, containerNames, of.ContainerName)
		e := newEntry(o, of)
		settings, rules := e.read(s)
		s.Containers[name], s.Resize.Containers[name] = &settings, rules
		s.Resize.Boost = max(s.Resize.Boost, rules.Boost)
		e.exclude(o, s.Resize.Excluded)
		e.checkCombinations(s, &settings)
		e.report(o)
	}
}

// checkContainer adds a problem if no container can have a name: a pattern such as istio-* would exclude nothing.
func checkContainer(o *overlay, path string, name v1alpha1.ContainerName) {
	if name != resize.EveryContainer && validation.IsDNS1123Label(string(name)) != nil {
		o.invalid(path, "%s %s is not the name of a container: write whole names, e.g. istio-proxy, or %q for all containers", path, o.quote(path, name), resize.EveryContainer)
	}
}

// newEntry returns an entry with the layers of the policy below its own.
func newEntry(o *overlay, of v1alpha1.ContainerPolicy) *entry {
	from := o.origin[containerNames]
	path := containerNames + "[" + string(of.ContainerName) + "]"
	e := &entry{ContainerPolicy: of, path: path, from: from, level: from + ", " + Level(path), sets: [2]bool{of.CPU != nil, of.Memory != nil}}
	own := newLayer(e.level, "", v1alpha1.PolicySettings{CPU: of.CPU, Memory: of.Memory})
	for _, r := range recommender.Resources {
		sized := of.ControlledResources == nil || slices.Contains(of.ControlledResources, controllable[r])
		if values := &own.of(r).ControlledValues; *values == nil && sized { // elsewhere it would be a field without effect
			*values = of.ControlledValues
			e.sets[r] = e.sets[r] || of.ControlledValues != nil
		}
	}
	e.merged.layers, e.merged.origin = append(slices.Clip(o.layers), own), map[string]Level{}
	if o.note != nil {
		e.merged.note = func(path string, value any) {
			if e.merged.origin[path] == e.level {
				o.note(e.path+"."+path, value)
			}
		}
	}
	return e
}

// own returns a field that only the entry has, as a field of its layer.
func own[T any](e *entry, set *T) func(*layer) *T {
	return func(l *layer) *T {
		if l.level == e.level {
			return set
		}
		return nil
	}
}

// read returns the settings and the rules of the entry's container, over those of the policy. It reads only the
// resources of which the entry sets a field: a policy may have 64 entries.
func (e *entry) read(s *Settings) (ContainerSettings, resize.ContainerRules) {
	out := ContainerSettings{Recommender: s.Recommender, StartupBoost: s.StartupBoost}
	rules := resize.ContainerRules{RaiseBeforeKill: s.Resize.RaiseBeforeKill}
	if e.sets[recommender.CPU] {
		out.Recommender.Of[recommender.CPU], out.StartupBoost = e.merged.resource(recommender.CPU), e.merged.startupBoost()
	}
	if e.sets[recommender.Memory] {
		out.Recommender.Of[recommender.Memory], rules.RaiseBeforeKill = e.merged.resource(recommender.Memory), raisesMemory(&e.merged)
	}
	for r, field := range e.uncontrolled() {
		rules.Uncontrolled[r], out.Recommender.Of[r].Uncontrolled = field, field
	}
	if rules.Uncontrolled[recommender.CPU] != "" {
		out.StartupBoost = nil
	}
	if out.StartupBoost != nil {
		rules.Boost = out.StartupBoost.Duration
	}
	return out, rules
}

// controllable are the names of the resources in the API.
var controllable = []v1alpha1.ControlledResource{recommender.CPU: v1alpha1.ControlledCPU, recommender.Memory: v1alpha1.ControlledMemory}

// uncontrolled returns for each resource that attune does not size the field that says so.
func (e *entry) uncontrolled() (fields [2]string) {
	const path = "controlledResources"
	named := pick(&e.merged, path, nil, own(e, list(e.ControlledResources)))
	if named == nil {
		return fields
	}
	bad := func(r v1alpha1.ControlledResource) bool { return !slices.Contains(controllable, r) }
	if len(named) == 0 || slices.ContainsFunc(named, bad) {
		e.merged.invalid(path, "%s %s must name cpu, memory or both, e.g. [memory]; to leave the container alone, set mode: Off", path, e.merged.quote(path, named))
	}
	for r, resource := range controllable {
		if !slices.Contains(named, resource) {
			fields[r] = e.path + "." + path
		}
	}
	return fields
}

// exclude adds the container to the excluded ones, or exempts it from the mode of the entry for every container.
func (e *entry) exclude(o *overlay, excluded map[string]bool) {
	const path, short = "mode", "excludedContainers"
	mode := oneOf(&e.merged, path, v1alpha1.ContainerAuto, []v1alpha1.ContainerMode{v1alpha1.ContainerAuto, v1alpha1.ContainerOff}, own(e, e.Mode))
	name := string(e.ContainerName)
	switch {
	case !excluded[name]:
		excluded[name] = mode == v1alpha1.ContainerOff
	case e.Mode != nil && mode == v1alpha1.ContainerAuto:
		full := e.path + "." + path
		o.origin[full] = e.from
		o.clash([]string{short, full}, "%s names %s, but %s is Auto: remove %s from %s, or set the mode to Off",
			short, o.quote(short, name), full, name, short)
	}
}

// checkCombinations checks combinations of fields of which the entry sets at least one.
func (e *entry) checkCombinations(s *Settings, of *ContainerSettings) {
	for _, r := range recommender.Resources {
		e.merged.checkBounds(of.Recommender.Of[r], r)
	}
	boosted := *s
	boosted.StartupBoost = of.StartupBoost
	e.merged.origin["updateStrategy.type"], e.merged.origin["strategy"] = s.Origin["updateStrategy.type"], s.Origin["strategy"]
	e.merged.checkModes(boosted)
	checkLimits(&e.merged, Settings{Recommender: of.Recommender})
	leaveLimits(s.Strategy, &of.Recommender)
}

// report adds the problems, the doubts and the origins of the entry's own fields to those of the policy.
func (e *entry) report(o *overlay) {
	move := func(p Problem) (Problem, bool) {
		own := false
		fields, levels := slices.Clone(p.Fields), slices.Clone(p.Levels)
		for i, level := range levels {
			if level == e.level {
				own, fields[i], levels[i] = true, e.path+"."+fields[i], e.from
			}
		}
		return Problem{Fields: fields, Levels: levels, Sentence: e.path + ": " + p.Sentence}, own
	}
	for _, p := range e.merged.problems {
		if moved, own := move(p); own {
			addProblem(o, moved)
		}
	}
	for _, p := range e.merged.doubts {
		if moved, own := move(p); own {
			o.doubts = append(o.doubts, moved)
		}
	}
	for path, level := range e.merged.origin {
		if level == e.level {
			o.origin[e.path+"."+path] = level
		}
	}
}

// base returns the level of the object that sets a field. It differs only for fields of containerPolicies.
func (l Level) base() Level {
	base, _, _ := strings.Cut(string(l), ", "+containerNames)
	return Level(base)
}

// entryOf returns the entry of a field of containerPolicies, such as containerPolicies[app], and the rest of its path;
// false: another field. A name may contain any byte where no schema was applied.
func entryOf(path string) (entry, field string, ok bool) {
	if !strings.HasPrefix(path, containerNames+"[") {
		return "", path, false
	}
	end := strings.LastIndex(path, "].")
	if end < 0 {
		return "", path, false
	}
	return path[:end+1], path[end+2:], true
}

// Unused returns the names of the policy's entries that no container has. Entries with mode Off are
// left out: they are also for containers that another webhook injects, as excludedContainers.
func (s *Settings) Unused(has func(container string) bool) (names []string) {
	if !s.Origin[containerNames].OfPolicy() {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.Containers)) {
		if name != resize.EveryContainer && !s.Resize.Excludes(name) && !has(name) {
			names = append(names, name)
		}
	}
	return names
}
