//! Every command of HTCondor's submit files and what becomes of it here: the table alone. What is
//! done with it is in `commands.rs`; the table in docs/htcondor.md is checked against it.

/// The commands whose values are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Executable,
    Arguments,
    Arguments2,
    AllowArgumentsV1,
    Shell,
    Environment,
    Environment2,
    AllowEnvironmentV1,
    GetEnv,
    InitialDir,
    Input,
    Output,
    Error,
    Log,
    TransferInputFiles,
    TransferOutputFiles,
    TransferOutputRemaps,
    ShouldTransferFiles,
    WhenToTransferOutput,
    TransferExecutable,
    RequestCpus,
    RequestMemory,
    RequestDisk,
    RequestGpus,
    RequireGpus,
    GpusMinCapability,
    GpusMaxCapability,
    GpusMinMemory,
    GpusMinRuntime,
    Universe,
    ContainerImage,
    DockerImage,
    DockerNetworkType,
    Requirements,
    Rank,
    Priority,
    MaxRetries,
    RetryUntil,
    SuccessExitCode,
    AllowedExecuteDuration,
    AllowedJobDuration,
    JobMaxVacateTime,
    KillSig,
    BatchName,
    MaxMaterialize,
    AccountingGroup,
    AccountingGroupUser,
    ProjectName,
    Description,
    Notification,
    OnExitHold,
    OnExitRemove,
    PeriodicHold,
    PeriodicRelease,
    PeriodicRemove,
    PeriodicVacate,
    LeaveInQueue,
    Hold,
    NoopJob,
    SkipIfDataflow,
    NiceUser,
}

/// Commands that are used: the names of each in small letters, HTCondor's own first, and what it
/// is here.
pub(super) const HONOURED: &[(Key, &str, &str)] = &[
    (
        Key::Executable,
        "executable cmd",
        "the program; transferred with the task unless `transfer_executable` is false",
    ),
    (Key::Arguments, "arguments args", "its words, in the old or the new quoting"),
    (Key::Arguments2, "arguments2", "the same, in the new quoting only"),
    (
        Key::AllowArgumentsV1,
        "allow_arguments_v1",
        "lets `arguments` and `arguments2` stand together; the second is taken",
    ),
    (Key::Shell, "shell", "one line for `/bin/sh -c`, in place of `executable` and `arguments`"),
    (Key::Environment, "environment env", "variables, in the old or the new quoting"),
    (Key::Environment2, "environment2", "the same, in the new quoting only"),
    (
        Key::AllowEnvironmentV1,
        "allow_environment_v1",
        "lets `environment` and `environment2` stand together; the second is taken",
    ),
    (
        Key::GetEnv,
        "getenv get_env",
        "your own variables: all, or those that match the names and patterns; `!` leaves out",
    ),
    (Key::InitialDir, "initialdir iwd initial_dir job_iwd", "where relative paths of files begin"),
    (Key::Input, "input stdin in", "`stdin`"),
    (Key::Output, "output stdout out", "`stdout`"),
    (Key::Error, "error stderr err", "`stderr`"),
    (Key::Log, "log userlog", "`event_log`"),
    (Key::TransferInputFiles, "transfer_input_files transferinputfiles transferinput", "`inputs`"),
    (
        Key::TransferOutputFiles,
        "transfer_output_files transferoutputfiles transferoutput",
        "`outputs`; without it, all files that are new",
    ),
    (
        Key::TransferOutputRemaps,
        "transfer_output_remaps transferoutputremaps",
        "where outputs are put",
    ),
    (
        Key::ShouldTransferFiles,
        "should_transfer_files shouldtransferfiles",
        "`no`: the task runs in `initialdir`. `yes`: in a folder of its own. `if_needed`, the \
         default: in a folder of its own when files are named",
    ),
    (
        Key::WhenToTransferOutput,
        "when_to_transfer_output whentotransferoutput",
        "`on_success` and `on_exit`; `on_exit_or_evict` is the same as `on_exit`",
    ),
    (
        Key::TransferExecutable,
        "transfer_executable transferexecutable",
        "false: it is on the node or in the image; so is a path from the root, with an image",
    ),
    (Key::RequestCpus, "request_cpus requestcpus", "`cpus`"),
    (Key::RequestMemory, "request_memory requestmemory", "`memory`; a bare number is in MiB"),
    (Key::RequestDisk, "request_disk requestdisk", "`disk`; a bare number is in KiB"),
    (Key::RequestGpus, "request_gpus requestgpus", "`gpu`"),
    (
        Key::RequireGpus,
        "require_gpus requiregpus",
        "comparisons of Capability, GlobalMemoryMb, DeviceName and DriverVersion, joined by \
         &&",
    ),
    (
        Key::GpusMinCapability,
        "gpus_minimum_capability gpusmincapability",
        "least compute capability",
    ),
    (
        Key::GpusMaxCapability,
        "gpus_maximum_capability gpusmaxcapability",
        "highest compute capability",
    ),
    (
        Key::GpusMinMemory,
        "gpus_minimum_memory gpusminmemory",
        "least memory of each GPU; a bare number is in MiB",
    ),
    (
        Key::GpusMinRuntime,
        "gpus_minimum_runtime gpusminruntime",
        "least CUDA version: the first driver that supports it",
    ),
    (Key::Universe, "universe jobuniverse", "`vanilla`, `container` and `docker`"),
    (
        Key::ContainerImage,
        "container_image containerimage",
        "`image`: docker://…, a SIF file, a folder, or `oci:/…` and the like",
    ),
    (Key::DockerImage, "docker_image dockerimage", "`image`, from a registry"),
    (Key::DockerNetworkType, "docker_network_type dockernetworktype", "`host` and `none`"),
    (Key::Requirements, "requirements", "`requirements`, without the clauses that HTCondor adds"),
    (Key::Rank, "rank preferences", "`rank`"),
    (Key::Priority, "priority prio jobprio", "`priority`, within your own jobs"),
    (
        Key::MaxRetries,
        "max_retries jobmaxretries",
        "`retries`; 2 when only `success_exit_code` or `retry_until` is given",
    ),
    (Key::RetryUntil, "retry_until", "an exit code that ends the retries"),
    (
        Key::SuccessExitCode,
        "success_exit_code jobsuccessexitcode",
        "0; another one cannot be honoured",
    ),
    (
        Key::AllowedExecuteDuration,
        "allowed_execute_duration allowedexecuteduration",
        "`time_limit`, in seconds",
    ),
    (
        Key::AllowedJobDuration,
        "allowed_job_duration allowedjobduration",
        "`time_limit`, in seconds",
    ),
    (
        Key::JobMaxVacateTime,
        "job_max_vacate_time jobmaxvacatetime",
        "the grace of the time limit, in seconds",
    ),
    (Key::KillSig, "kill_sig killsig", "the warning signal of the time limit"),
    (Key::BatchName, "batch_name jobbatchname", "`name`"),
    (Key::MaxMaterialize, "max_materialize jobmaterializelimit", "`max_running`"),
    (Key::AccountingGroup, "accounting_group accountinggroup", "the label `accounting_group`"),
    (
        Key::AccountingGroupUser,
        "accounting_group_user acctgroupuser",
        "the label `accounting_group_user`",
    ),
    (Key::ProjectName, "project_name projectname", "the label `project_name`"),
    (Key::Description, "description jobdescription", "the label `description`"),
    (Key::Notification, "notification jobnotification", "`never`; there is no mail"),
    (Key::OnExitHold, "on_exit_hold onexithold", "`false`; there is no hold"),
    (
        Key::OnExitRemove,
        "on_exit_remove onexitremove",
        "`true`; `max_retries` says when a task is tried again",
    ),
    (Key::PeriodicHold, "periodic_hold periodichold", "`false`; there is no hold"),
    (Key::PeriodicRelease, "periodic_release periodicrelease", "`false`; there is no hold"),
    (
        Key::PeriodicRemove,
        "periodic_remove periodicremove",
        "`false`; `allowed_execute_duration` limits the time",
    ),
    (Key::PeriodicVacate, "periodic_vacate periodicvacate", "`false`"),
    (Key::LeaveInQueue, "leave_in_queue leavejobinqueue", "any; ended jobs stay in sight anyway"),
    (Key::Hold, "hold", "`false`; jobs cannot be submitted on hold"),
    (Key::NoopJob, "noop_job isnoopjob", "`false`"),
    (Key::SkipIfDataflow, "skip_if_dataflow skipifdataflow", "`false`"),
    (Key::NiceUser, "nice_user niceuser", "`false`; `priority` with a number below 0 does that"),
];

/// Commands without a meaning: why, and their names.
pub(super) const NO_MEANING: &[(&str, &str)] = &[
    (
        "`shipway logs -f` shows output while the task runs; files are written at its end",
        "stream_input stream_output stream_error",
    ),
    ("there is no mail", "notify_user email_attributes"),
    (
        "the event log has one form",
        "log_xml ulog_execute_attrs submit_event_notes submit_event_user_notes \
         submit_event_notes_attrs dagman_log job_ad_information_attrs",
    ),
    (
        "there is no hold",
        "on_exit_hold_reason on_exit_hold_subcode periodic_hold_reason periodic_hold_subcode",
    ),
    (
        "queued tasks cost next to nothing; all are submitted at once",
        "max_idle materialize_max_idle",
    ),
    ("jobs are told apart by their ids and labels", "batch_id jobset"),
    ("usage is measured", "image_size disk_usage memory_usage executable_size"),
    ("limits of the node are not changed", "core_size stack_size"),
    (
        "this is how HTCondor holds machines; there is nothing alike",
        "keep_claim_idle next_job_start_delay job_lease_duration max_job_retirement_time \
         match_list_length job_machine_attrs job_machine_attrs_history_length \
         want_graceful_removal rendezvousdir",
    ),
    ("files are read where they are", "copy_to_spool spool"),
    ("files are copied on the node", "max_transfer_input_mb max_transfer_output_mb"),
    (
        "it is of the standard universe, which is no more",
        "buffer_files buffer_size buffer_block_size file_remaps fetch_files compress_files \
         append_files local_files",
    ),
    (
        "a cancelled task gets SIGTERM, and is killed after ten seconds",
        "hold_kill_sig remove_kill_sig kill_sig_timeout",
    ),
    ("images are stored by digest; what is stored is not fetched again", "docker_pull_policy"),
    (
        "images are stored once for all tasks",
        "transfer_container container_is_common transfer_common_input",
    ),
    ("it is of Windows", "load_profile run_as_owner"),
    (
        "logins are not carried to tasks",
        "use_scitokens use_scitoken scitokens_file use_oauth_services useoauthservices",
    ),
    ("there is no starter; `shipway show` says how a task ended", "starter_debug starter_log"),
    (
        "targets of `transfer_input_files` are at the top of the work folder",
        "preserve_relative_paths",
    ),
    ("output of each attempt is kept apart", "erase_output_and_error_on_restart"),
    ("`shipway show` lists what a task was given", "manifest manifest_dir"),
    ("`submit` starts no session", "interactive_executable interactive_args"),
    ("workflows of DAGMan are not known here", "dagman_job_id dag_node_name dagman_node_retry"),
    (
        "empty fields and matches are warned about, always",
        "submit_warn_empty_matches submit_fail_empty_matches submit_warn_duplicate_matches \
         submit_allow_duplicate_matches submit_match_directories submit_warn_empty_fields \
         submit_fail_empty_fields submitwarnemptymatches submitfailemptymatches \
         submitwarnduplicatematches submitallowduplicatematches submitmatchdirectories \
         submitwarnemptyfields submitfailemptyfields",
    ),
    ("name them in `transfer_input_files`", "public_input_files"),
    (
        "there is nothing alike",
        "want_ads want_name_tag wantnametag exit_requirements on_evict_checks coresize \
         want_parallel_scheduling wantparallelscheduling",
    ),
    ("each task runs by itself", "tasks_per_job"),
];

/// Commands that cannot be honoured: why, and their names.
pub(super) const REFUSED: &[(&str, &str)] = &[
    (
        "tasks start as soon as there is room",
        "deferral_time deferral_window deferral_prep_time cron_minute cron_hour \
         cron_day_of_month cron_month cron_day_of_week cron_window cron_prep_time",
    ),
    ("what others count on is not counted here", "concurrency_limits concurrency_limits_expr"),
    (
        "jobs are not sent on to other systems",
        "grid_resource arc_rte arc_application arc_resources arc_data_staging \
         batch_extra_submit_args batch_project batch_queue batch_runtime nordugrid_rsl \
         cream_attributes keystore_file keystore_alias keystore_passphrase_file \
         remote_universe remote_grid_resource remote_remote_grid_resource remote_initialdir",
    ),
    (
        "a task runs on one node",
        "machine_count node_count nodecount parallel_script_shadow parallel_script_starter",
    ),
    (
        "the universe `java` is not known; name `java` as the executable",
        "java_vm_args java_vm_arguments java_vm_arguments2 jar_files",
    ),
    (
        "virtual machines are not known",
        "vm_type vm_memory vm_vcpus vm_disk vm_macaddr vm_checkpoint vm_networking \
         vm_networking_type vm_vnc vm_no_output_vm xen_kernel xen_initrd xen_root \
         xen_kernel_params",
    ),
    (
        "machines of a cloud are not rented",
        "ec2_access_key_id ec2_secret_access_key ec2_ami_id ec2_user_data ec2_user_data_file \
         ec2_security_groups ec2_security_ids ec2_keypair ec2_keypair_file ec2_keyp_air \
         ec2_key_pair_file ec2_instance_type ec2_elastic_ip ec2_ebs_volumes \
         ec2_availability_zone ec2_vpc_subnet ec2_vpc_ip ec2_tag_names ec2_spot_price \
         ec2_block_device_mapping ec2_parameter_names ec2_iam_profile_arn \
         ec2_iam_profile_name gce_image gce_account gce_auth_file gce_machine_type \
         gce_metadata gce_metadata_file gce_preemptible gce_json_file azure_auth_file \
         azure_location azure_size azure_image azure_admin_username azure_admin_key \
         cloud_label_names",
    ),
    (
        "tasks are not restarted from checkpoints",
        "checkpoint_exit_code checkpoint_destination transfer_checkpoint_files",
    ),
    (
        "files are not sent elsewhere",
        "output_destination output_directory transfer_plugins aws_region \
         aws_access_key_id_file aws_secret_access_key_file s3_access_key_id_file \
         s3_secret_access_key_file gs_access_key_id_file gs_secret_access_key_file",
    ),
    (
        "files are not encrypted",
        "encrypt_execute_directory encrypt_input_files encrypt_output_files \
         dont_encrypt_input_files dont_encrypt_output_files",
    ),
    (
        "logins are not carried to tasks",
        "x509userproxy use_x509userproxy delegate_job_gsi_credentials_lifetime \
         docker_send_credentials",
    ),
    (
        "no tool can be attached",
        "tool_daemon_cmd tool_daemon_args tool_daemon_arguments tool_daemon_arguments2 \
         tool_daemon_input tool_daemon_error tool_daemon_output suspend_job_at_exec",
    ),
    ("streams are always brought and taken", "transfer_input transfer_output transfer_error"),
    ("tasks do not speak to the submitter", "want_job_networking want_io_proxy"),
    (
        "folders and ports of a container are said with `binds` in a job file",
        "container_service_names container_target_dir mount_under_scratch",
    ),
    (
        "the entry point of an image is not run: name what to run as `executable`",
        "docker_override_entrypoint",
    ),
    ("a task runs with the groups of its account", "primary_unix_group"),
    (
        "a task is tried again with the same needs",
        "retry_request_memory retry_request_memory_max retry_request_memory_increase \
         retry_request_disk",
    ),
    ("tasks are run", "noop_job_exit_signal noop_job_exit_code"),
    ("say `gpus_minimum_runtime`", "require_cuda_version cuda_version"),
    (
        "it is not a command: `request_gpus`, `gpus_minimum_memory` and `request_cpus` are",
        "request_gpu request_gpu_memory request_gpus_memory request_cpu",
    ),
];

/// Beginnings of names that are completed by their users, as in `ec2_tag_owner`.
pub(super) const REFUSED_PREFIXES: &[(&str, &str)] = &[
    ("ec2_tag_", "machines of a cloud are not rented"),
    ("ec2_parameter_", "machines of a cloud are not rented"),
    ("cloud_label_", "machines of a cloud are not rented"),
    ("transform_body_", "jobs are not transformed"),
];
