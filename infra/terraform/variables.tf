variable "name" {
  type        = string
  description = "The table's name, and the first part of the names of alarms, metrics, queries, policies and the dashboard."

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{3,64}$", var.name))
    error_message = "The name needs 3 to 64 of A-Z, a-z, 0-9, _ and -: it is part of the dashboard's name, and of names whose parts `/` or `+` joins."
  }
}

variable "existing_table_name" {
  type        = string
  default     = null
  description = "An existing table of this account and region, restored or shared. Without it the module creates one."
}

variable "services" {
  type = map(object({
    role_name      = string
    scopes         = list(list(string))
    function_name  = optional(string)
    log_group_name = optional(string)
  }))
  description = <<-TEXT
    The functions and servers that use the table, by names that you choose. Each may keep the records of its
    scopes, and of no others; a scope is the list of its segments: [["payments"], ["refunds", "v2"]].
    A function has a function_name; a server has none, and its role is that of its task or pod. Most
    alarms count lines in the log group; without one, watch the metrics (infra/servers). The names begin the
    descriptions of alarms, and are part of the names of policies, metrics and queries.
  TEXT

  validation {
    condition     = alltrue([for service in var.services : length(service.scopes) > 0])
    error_message = "A service has no scope: a grant for every record is no least privilege."
  }

  validation {
    condition     = alltrue([for name in keys(var.services) : can(regex("^[A-Za-z0-9_.-]{1,40}$", name))])
    error_message = "A service's name has other characters than A-Z, a-z, 0-9, _, . and -, or more than 40: it is part of names whose parts `/` or `+` joins."
  }

  validation {
    condition = length(distinct([for service in var.services : service.log_group_name if service.log_group_name != null])) == length([
      for service in var.services : service.log_group_name if service.log_group_name != null
    ])
    error_message = "Two services share a log group: give each its own, or their calls cannot be distinguished."
  }
}

variable "inspector_role_names" {
  type        = set(string)
  default     = []
  description = "Roles that can read every record with the command line."
}

variable "operator_role_names" {
  type        = set(string)
  default     = []
  description = "Roles that can read every record and release keys with the command line."
}

variable "restorer_role_names" {
  type        = set(string)
  default     = []
  description = "Roles that can restore the table, into one whose name is this table's with `-` and more behind it."
}

variable "kms_key_arn" {
  type        = string
  default     = null
  description = "The customer managed key that encrypts the table. Without it, AWS encrypts with a key that it owns."
}

variable "deletion_protection" {
  type        = bool
  default     = true
  description = "Whether DynamoDB refuses to delete the table. If the table is lost, every payment in it can be made again."
}

variable "point_in_time_recovery" {
  type        = bool
  default     = true
  description = "Whether the table can be restored to any second of the last 35 days."
}

variable "page_actions" {
  type        = list(string)
  default     = []
  description = "ARNs, for example of an SNS topic, that are notified of a page and of its end. A page requires action at once."
}

variable "ticket_actions" {
  type        = list(string)
  default     = []
  description = "ARNs that are notified of a ticket and of its end: a rate above a threshold."
}
