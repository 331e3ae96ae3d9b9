package main

// edit of one file of the product: a text that is there once, and what takes its place.
type edit struct{ file, old, new string }

// mutant is the product without the mend of one finding.
type mutant struct {
	// finding that was mended, and out: what is taken out.
	finding, out string
	edits        []edit
	// world that notices, and says: the invariant that does not hold. Where no world can show it: a package and the name of its
	// test, and failed.
	world, says string
}

var mutants = []mutant{
	{
		"P0: a workload is never decided again", "what pods hold is asked for one by one, and a pass that could not settle is made again",
		[]edit{
			{"controller/workload/look.go", "c.queryMemory(ctx, w, asks.Memory)", "c.queryMemory(ctx, w, asks.Memory[:min(1, len(asks.Memory))])"},
			{"controller/workload/look.go", "	return decided{Decision: c.decideWithoutNew(ctx, w)}\n", "	w.Part = tuning.UrgentPart\n	d := decided{Decision: tuning.Decision{Status: *w.Rec.Status.DeepCopy()}}\n	d.Wake(100 * 1000 * 1000)\n	return d\n"},
		},
		"TestWorlds/page_cache", "no spinning",
	},
	{
		"P0: a revert out of reach is a write in each pass", "nothing within reach: the try is counted and asked for again at once",
		[]edit{{"tuning/watch.go", "			action.RequeueAfter = lookAgain\n", "			action.RequeueAfter = 1000 * 1000\n			next.Attempts = record.Attempts%10 + 1\n"}},
		"TestWorlds/a_limit_range_comes", "calm",
	},
	{
		"P0: a CronJob that keeps six Jobs is written for ever", "originals of ended Jobs by their uid, the oldest dropped for the newest, and own writes wake the next pass",
		[]edit{
			{"podview/template.go", "	appsv1.ControllerRevisionHashLabelKey,\n", "	appsv1.ControllerRevisionHashLabelKey,\n	\"batch.kubernetes.io/controller-uid\",\n"},
			{"tuning/originals.go", "	live := d.view.Live()\n", "	live := d.view.Pods\n"},
			{"tuning/originals.go", "	if i < 0 {\n		return false\n	}\n", "	i = max(i, 0)\n"},
			{"controller/workload/stored.go", ".statuses, digest)", ".statuses, digest) && false"},
		},
		"TestWorlds/six_jobs_are_kept", "calm",
	},
	{
		"P1: 404 on resize is asked again at once", "no memory of what is not found, nor of what the API server serves",
		[]edit{
			{"resize/tries.go", "	if outcome.Kind == OutcomeRBAC {\n", "	if outcome.Kind == OutcomeRBAC || outcome.Kind == OutcomeGone {\n"},
			{"controller/workload/rights.go", "s != nil && s.missing.Load()", "s != nil && s.missing.Load() && false"},
		},
		"TestWorlds/no_resizes_are_served", "no repeats",
	},
	{
		"P1: 422 of sixty pods is asked again for ever", "no memory of what is never valid",
		[]edit{{"resize/tries.go", "	if outcome.Kind == OutcomeRBAC {\n", "	if outcome.Kind == OutcomeRBAC || outcome.Kind == OutcomeTerminal {\n"}},
		"TestWorlds/no_resize_is_valid", "no repeats",
	},
	{
		"P1: a size that killed one pod is kept for its siblings", "what survivors had is kept, whatever harm has taught",
		[]edit{
			{"resize/harm/verified.go", "		if resize.BelowFloor(floors, c.Name, podview.FromResources(c.Resources), now) {\n", "		if false {\n"},
			{"tuning/watch.go", "	for _, record := range d.records.open {\n		if record.Phase == v1alpha1.RecordReverting {\n", "	for _, record := range d.records.open {\n		if false {\n"},
			{"tuning/births.go", "	d.verified = harm.DropBelowFloors(d.floors, d.verified, d.view.Now)\n", ""},
		},
		"TestWorlds/one_of_a_wave_is_harmed", "harmless",
	},
	{
		"P1: a revert keeps its container from starting", "a CPU limit is raised while its container waits",
		[]edit{{"resize/platform_move.go", "	if status == nil || status.State.Running != nil || from == 0", "	if true || status == nil || status.State.Running != nil || from == 0"}},
		"TestWorlds/one_of_a_wave_is_harmed", "starts",
	},
	{
		"P1: a node that dies counts as harm", "a node that is not ready excuses nothing",
		[]edit{{"resize/harm/judge.go", "	case signals.NodeNotReady:\n", "	case false && signals.NodeNotReady:\n"}},
		"TestWorlds/a_node_dies", "blameless",
	},
	{
		"P1: containers that were never tried are born lowered", "one kept container speaks for all",
		[]edit{{"tuning/targets/seed.go", "s.RaiseOnly || v.usesVerified && verified == nil", "s.RaiseOnly || v.usesVerified && len(v.Status.Verified) == 0"}},
		"TestWorlds/a_container_was_not_tried", "admissions",
	},
	{
		"P1: on 1.33 a deferred growth cannot be withdrawn", "a memory limit is lowered where no API server lets it be",
		[]edit{{"resize/lifecycle/revert.go", "if !m.LowersMemoryLimit() || caps.ServerMinor >= resize.MinorMemoryLimitDecrease ||", "if !m.LowersMemoryLimit() || caps.ServerMinor >= 0 ||"}},
		"TestWorlds/1.33_and_a_full_node", "no repeats",
	},
	{
		"P1: one namespace's authorizer stops every workload", "a refusal in one namespace is the loss of all rights",
		[]edit{{"controller/workload/rights.go", "err == nil && !granted {", "err == nil || !granted {"}},
		"TestWorlds/a_namespace_is_denied", "neighbours",
	},
	{
		"P1: reverts hang on things they do not need", "a pass ends where autoscalers cannot be listed",
		[]edit{{"controller/workload/controller.go", "	if d, presses := c.decideUrgent(ctx, &w); presses {\n", "	if c.observeAutoscalers(ctx, &w) != nil {\n		return reconcile.Result{}, context.DeadlineExceeded\n	}\n	if d, presses := c.decideUrgent(ctx, &w); presses {\n"}},
		"TestWorlds/autoscalers_are_not_listed", "rescued",
	},
	{
		"P1: pods that crash since their birth hold a rollout up", "they keep the size that they were born with",
		[]edit{{"tuning/start.go", "	d.restoreBirths()\n", ""}},
		"TestWorlds/a_start_needs_more", "it would run without attune",
	},
	{
		"P2: nodes are never forgotten", "what is known of a node stays when it is gone",
		[]edit{
			{"controller/workload/setup.go", "nodeChanged(c.memory.nodes.Forget)", "nodeChanged(func(string) {})"},
			{"controller/workload/observe.go", "		c.memory.nodes.Forget(name)\n", ""}, {"controller/workload/nodes.go", "	m.sweep(nodesLast, now)\n", ""},
		},
		"TestWorlds/nodes_come_and_go", "bounded",
	},
	{
		"P2: a person's rescue is overwritten", "patches that lower name no version of the pod",
		[]edit{{"controller/workload/send.go", "		plan.Version = w.Pod.ResourceVersion\n", ""}},
		"TestWorlds/a_person_was_faster", "no rescue is undone",
	},
	{
		"P2: originals are lost with the object", "what a resized pod has is what it had before",
		[]edit{{"tuning/originals.go", "changed := claimed || pod.Generation > 1", "changed := claimed"}},
		"TestWorlds/recommendations_are_deleted", "originals",
	},
	{
		"P2: one refused recommendation stops its neighbours'", "the first error ends the look",
		[]edit{{"controller/policy/recommend.go", "	case errors.As(err, &refused):\n", "	case errors.As(err, &refused) && false:\n"}},
		"TestWorlds/a_recommendation_is_refused", "recommended",
	},
	{
		"P2: policies cannot be deleted without the operator", "the finalizer stays when the last record is closed",
		[]edit{{"controller/policy/ends.go", "CleanupFinalizer, open); err", "CleanupFinalizer, open || len(p.Finalizers) > 0); err"}},
		"TestWorlds/recommendations_are_deleted", "released",
	},
	{
		"P2: the harmed pods of one wave are as many reverts", "each revert lengthens the back-off",
		[]edit{{"resize/lifecycle/history.go", "	case !begun(reverted).After(backoff.Since.Time):\n", "	case false:\n"}},
		"TestWorlds/a_wave_is_harmed", "one wave, one revert",
	},
	{
		"The bridge foretold pods of a template that leaves requests out", "the template is read as it is written",
		[]edit{{"webhook/pod/predict.go", "json.Marshal(atAdmission(template, limits))", "json.Marshal(template)"}},
		"TestWorlds/templates_leave_requests_out", "predicted",
	},
	{
		"P0: usage that follows its limit raises it without end", "no ceiling on memory limits",
		[]edit{{"recommender/brake.go", "	if template.Limit == 0 {\n", "	if true {\n"}},
		"TestFollowing/page_cache_fills_its_limit", "no limit follows its usage",
	},
	{
		"P0: a limit of the strategy Node follows itself", "no bound on a limit that the template does not have",
		[]edit{{"tuning/targets/node.go", "	case most == 0 && given == 0:\n", "	case true:\n"}},
		"TestFollowing/page_cache_fills_a_limit_of_ours", "no limit follows its usage",
	},
	{
		"P0: a raise before a kill follows page cache", "raises before a kill know no ceiling",
		[]edit{{"tuning/climb.go", "Ceiling: d.ceiling(pod, c), ", ""}},
		"TestFollowing/page_cache_fills_its_limit_while_it_climbs", "no limit follows its usage",
	},
	{
		"P0: another admission policy rejects created pods for ever", "rejected pods withdraw no admission resources",
		[]edit{{"resize/withdraw/judge.go", "	if r := d.in.Rejected; r != nil && d.in.Seed != nil &&", "	if r := d.in.Rejected; false && r != nil && d.in.Seed != nil &&"}},
		"TestHazards/created_pods_are_refused_by_a_policy", "it would run without attune",
	},
	{
		"P0: a quota of another platform rejects created pods for ever", "events of owners that report no condition are not read",
		[]edit{{"controller/workload/start.go", "); known {\n		w.Past.Rejected = &last\n", "); known && false {\n		w.Past.Rejected = &last\n"}},
		"TestHazards/created_pods_are_refused_by_a_quota", "it would run without attune",
	},
	{
		"P0: created pods never start", "pods that wait on their nodes withdraw no admission resources",
		[]edit{{"resize/withdraw/judge.go", "	if !known || !MayStall(words) {\n", "	if !known || true || !MayStall(words) {\n"}},
		"TestHazards/volumes_of_created_pods_cannot_mount", "it would run without attune",
	},
	{
		"P0: withdrawn admission resources are set all the same", "neither admission nor the seed obeys status.admissionWithdrawn",
		[]edit{{"resize/withdraw/withdraw.go", "	return w != nil && (now", "	return false && w != nil && (now"}},
		"TestHazards/a_policy_comes_and_goes", "it would run without attune",
	},
	{
		"P0: a DaemonSet's pod is larger than its node", "neither targets nor created pods are bounded by nodes, and no created pod that fits none is noticed",
		[]edit{
			{"tuning/targets/largest.go", "			case !raised:\n", "			case true || !raised:\n"},
			{"tuning/targets/largest.go", "		size[r] = recommender.Allocation{Request: v.Largest[r], Limit: v.Largest[r]}\n", "		size[r] = recommender.Allocation{}\n"},
			{"resize/withdraw/judge.go", "	was, grown := d.requestsBefore(pod)\n	if !unschedulable || !grown {\n", "	was, grown := d.requestsBefore(pod)\n	if true || !unschedulable || !grown {\n"},
		},
		"TestHazards/created_daemons_fit_no_node", "it would run without attune",
	},
	{
		"P0: a kill that fell out of the list is learned again", "the amount is the limit that the pod has now",
		[]edit{{"resize/harm/learn.go", "	case !podview.ResizedSince(pod, k.At, now):\n", "	case true || !podview.ResizedSince(pod, k.At, now):\n"}},
		"TestHazards/more_are_killed_than_rows_are_kept", "no size that nothing demanded",
	},
	{
		"P1: a lost recommendation raises whatever was ever killed", "an old kill teaches the present limit",
		[]edit{{"resize/harm/learn.go", "	return min(k.Limit, before), false\n", "	return max(k.Limit, min(before, 0)), true\n"}},
		"TestHazards/recommendations_are_lost_again_and_again", "no size that nothing demanded",
	},
	{
		"P0: one kill under a memory HPA moves the request of all pods", "what a kill taught is a floor of the request, also of one that an HPA scales on",
		[]edit{
			{"tuning/sizes.go", "		if scaledOnMemory(d.view.Autoscalers, t) && (kept", "		if false && scaledOnMemory(d.view.Autoscalers, t) && (kept"},
			{"resize/target.go", "	target := Unheld(t)\n", "	target := Unheld(t)\n	target[recommender.Memory].Request = max(target[recommender.Memory].Request, OOMFloor(t, floors, now))\n"},
		},
		"TestHazards/a_kill_under_a_memory_HPA", "it would run without attune",
	},
	{
		"P0: the kill switch keeps the harm", "nothing restores pods while attune is stopped",
		[]edit{{"tuning/pass.go", "	d.starter.restore()\n", ""}},
		"TestHazards/stopped_in_harm,_kill_switch", "rescued",
	},
	{
		"P0: a starved container waits for the cooldown", "the recent usage is not read",
		[]edit{{"controller/workload/observe.go", "			NoRecent: c.Recently == nil,\n", "			NoRecent: true,\n"}},
		"TestWorlds/a_container_is_starved", "raises that are due",
	},
	{
		"P0: a starved container waits for the cooldown of another resize", "a raise that is due waits for the cooldown",
		[]edit{{"resize/steps.go", "	return in.Due.raises(m, r) || StepOf", "	return StepOf"}},
		"TestWorlds/a_container_is_starved_in_a_cooldown", "raises that are due",
	},
	{
		"P1: a raise that is due goes in steps", "a raise that is due is capped",
		[]edit{{"tuning/sizes.go", "			Due: due[t.Name], Settings:", "			Due: [2]bool{due[t.Name][0] && false}, Settings:"}},
		"TestWorlds/a_container_needs_more_memory", "raises that are due",
	},
	{
		"P1: a raise that is due waits for the waves of other pods", "pods go in the order of their names",
		[]edit{{"resize/waves.go", "		if a.Due != b.Due {\n", "		if false && a.Due != b.Due {\n"}},
		"TestWorlds/a_container_is_starved_amid_decreases", "raises that are due",
	},
	{
		"P1: raises go on after a regression", "a backoff holds no raise that is due",
		[]edit{
			{"resize/steps.go", "	if in.Status.Backoff != nil {\n		return false\n	}\n	return in.Due", "	return in.Due"},
			{"tuning/due.go", " || d.gates.status().Backoff != nil ||", " ||"},
		},
		"TestWorlds/a_container_is_starved_after_a_revert", "raises that are due",
	},
	{
		"P0: a target below the range of an HPA with Keep", "the recommendation ignores the range",
		[]edit{
			{"recommender/kept.go", "	if c.kept.Contains(before) {\n", "	if true || c.kept.Contains(before) {\n"},
			{"recommender/kept.go", "	if request == 0 || c.kept.Contains(request) {\n", "	if true || c.kept.Contains(request) {\n"},
		},
		"TestHazards/an_HPA_with_Keep", "requests are kept",
	},
	{
		"P0: a resize below the range of an HPA with Keep", "the gate of running pods ignores the range",
		[]edit{{"resize/narrow.go", "kept != nil && (kept.Contains(m.To[r].Request) ||", "kept != nil && (true || kept.Contains(m.To[r].Request) ||"}},
		"TestHazards/an_HPA_with_Keep_and_a_LimitRange_below", "requests are kept",
	},
	{
		"P0: a range of an HPA that was changed since", "the digest of the HPAs is not compared",
		[]edit{{"internal/autoscale/keep.go", "row.Digest != h.digest(of, &f):", "false && row.Digest != h.digest(of, &f):"}},
		"TestHazards/an_HPA_with_Keep_is_edited_in_a_wave", "replicas are kept",
	},
	{
		"P0: a range from the first hour of a day", "a history of any length proves a range",
		[]edit{
			{"internal/autoscale/keep.go", "	needed := min(keptWeek, p.Window) / 10 * 9\n", "	needed := time.Duration(0)\n"},
			{"internal/autoscale/keep.go", "	case needed < keptDay:\n", "	case needed > keptDay:\n"},
		},
		"TestHazards/an_HPA_with_Keep_and_a_peak_each_day", "replicas are kept",
	},
	{
		"P0: a deleted HPA with Keep comes back", "an HPA that is gone blocks nothing",
		[]edit{{"internal/autoscale/stored.go", "const blockedFor = 24 * time.Hour", "const blockedFor = time.Minute"}},
		"TestHazards/an_HPA_with_Keep_is_deleted_in_a_wave", "replicas are kept",
	},
	{
		"P0: a target is raised after the requests were lowered", "the target belongs to the requests that pods have",
		[]edit{{"controller/workload/retarget.go", "f.At(f.Request(lowestRequests(w, d)))", "f.At(f.Request(w.Pods))"}},
		"TestHazards/an_HPA_with_Retarget", "targets are raised before",
	},
	{
		"P0: a target that may not be changed any more stays", "a refused target has no follower",
		[]edit{{"internal/autoscale/threshold.go", "		case b.object.rewritten:\n", "		case false && b.object.rewritten:\n"}},
		"TestHazards/an_HPA_with_Retarget_gets_a_short_window", "targets follow",
	},
	{
		"P1: a restored target keeps its annotation", "the original target is noted as any other",
		[]edit{{"internal/autoscale/retarget.go", "	case to == original:\n		return rewrite(o, at, live, to, Rewritten{})\n", "	case to == original && false:\n"}},
		"TestHazards/an_HPA_with_Retarget", "targets are restored",
	},
	{
		"P0: requests change although the target cannot", "no resize waits for the target",
		[]edit{{"controller/workload/retarget.go", "	if wait.why != \"\" {\n", "	if false && wait.why != \"\" {\n"}},
		"TestHazards/an_HPA_with_Retarget_that_cannot_be_changed", "targets are raised before",
	},
	{
		"P0: new pods below the range of an HPA with Keep", "admission ignores the range",
		[]edit{{"webhook/pod/fit.go", "fitted.Request != was.Request && !s.kept.Contains(fitted.Request)", "false && !s.kept.Contains(fitted.Request)"}},
		"./webhook/pod TestNewPodsStayWithinTheRangeThatKeepsTheReplicas", failed,
	},
	{
		"P0: new pods with a verified size below the range", "a verified size takes precedence over the range",
		[]edit{{"tuning/targets/seed.go", "	case request == 0 || kept.Contains(request):\n", "	case true || kept.Contains(request):\n"}},
		"./tuning/targets TestKeptRangeTakesPrecedenceOverVerifiedSizes", failed,
	},
	{
		"P0: a series of 1,600 cores is believed", "no sample is above what a node has",
		[]edit{{"usage/plausible.go", "	case value > m.Of(memory):\n", "	case false && value > m.Of(memory):\n"}},
		"./usage/prometheus TestSamplesAboveTheLargestNodeAreToldApart", failed,
	},
	{
		"P0: 40 cores of a container with a limit of 2 are believed", "no sample is above 1.5 times the limit in force",
		[]edit{{"usage/plausible.go", "	case drop == \"\" && exceeds(f.LimitSince, DropLimit):\n", "	case false && drop == \"\" && exceeds(f.LimitSince, DropLimit):\n"}},
		"./usage TestSamplesAboveTheLimitInForceAreDropped", failed,
	},
	{
		"P1: CPU of the start is the percentile", "CPU of the start is kept",
		[]edit{{"usage/source.go", "	if s.Started == 0 || RestartsOften(s.Restarts) {\n", "	if true || s.Started == 0 || RestartsOften(s.Restarts) {\n"}},
		"./usage/history TestStartIsNoSteadyUsage", failed,
	},
	{
		"P0: memory measured as 0 sizes a pod", "0 bytes are a measurement",
		[]edit{{"usage/plausible.go", "	case memory && value == 0:\n", "	case false && memory && value == 0:\n"}},
		"./usage TestSamplesThatCannotBeTrueAreDropped", failed,
	},
	{
		"P0: a created pod is too small to start", "no least size",
		[]edit{{"recommender/least.go", "		return max(to, least)\n", "		return to\n"}},
		"./webhook/pod TestSeedKeepsLeastSizes", failed,
	},
	{
		"P0: /dev/shm shrinks with a created pod's limit", "admission does not ask for memory-backed volumes",
		[]edit{{"resize/platform_spec.go", "	case !m.LowersMemoryLimit() || !f.Volumes", "	case !f.Running || !m.LowersMemoryLimit() || !f.Volumes"}},
		"./webhook/pod TestSeedKeepsLimitOfMemoryVolumes", failed,
	},
	{
		"A1: answers to reviews without bound", "every problem is named, of values of any length",
		[]edit{
			{"webhook/validation/handler.go", "	if err := bounded(specOf(object)); err != nil {\n", "	if err := bounded(specOf(object)); false && err != nil {\n"},
			{"internal/policy/invalid.go", "	MostProblems = 20\n", "	MostProblems = 1 << 30\n"},
			{"internal/policy/invalid.go", "	mostOfMessage = 4 << 10\n", "	mostOfMessage = 64 << 20\n"},
			{"internal/policy/invalid.go", "	mostOfSentence = 1 << 10\n", "	mostOfSentence = 64 << 20\n"},
		},
		"./webhook/server TestAnswersAreBounded", failed,
	},
	{
		"A5: log lines without bound", "attributes are written whole",
		[]edit{{"cmd/attune/logging.go", "	switch a.Value.Kind() {\n	case slog.KindString:\n		a.Value = slog.StringValue(clip", "	switch slog.Kind(-1) {\n	case slog.KindString:\n		a.Value = slog.StringValue(clip"}},
		"./cmd/attune TestLogLinesAreShort", failed,
	},
}
